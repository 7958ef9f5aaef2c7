"""Convert the SDK's types to ours, in the forms that `fitting.py` gives them. Importing this module
loads the SDK."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import mcp_types as types

from agentcli.mcp.answers import Answer, ServerPrompt, ServerResource, ServerTool


def tool_answer(result: types.CallToolResult) -> Answer:
    """Convert a tool's result. Structured data becomes the text if there is nothing else."""
    text, images = _rendered(result.content)
    structured = result.structured_content
    if not text.strip() and not images and structured is not None:
        text = json.dumps(structured, ensure_ascii=False, indent=1)
    return Answer(text, images, structured, error=bool(result.is_error))


def resource_answer(result: types.ReadResourceResult) -> Answer:
    text, images = _rendered(result.contents)
    return Answer(text, images)


def prompt_answer(result: types.GetPromptResult) -> Answer:
    """Convert a prompt's messages; those that it suggests as the model's answers are marked."""
    parts: list[str] = []
    images: list[str] = []
    for message in result.messages:
        text, found = _rendered([message.content])
        parts.append(text if message.role == "user" else f"[An answer that it suggests:]\n{text}")
        images += found
    return Answer("\n\n".join(parts), tuple(images))


def _rendered(blocks: Iterable[object]) -> tuple[str, tuple[str, ...]]:
    texts: list[str] = []
    images: list[str] = []
    for block in blocks:
        match block:
            case types.TextContent(text=text) | types.TextResourceContents(text=text):
                texts.append(text)
            case types.ImageContent(data=data, mime_type=kind):
                images.append(f"data:{kind};base64,{data}")
            case types.BlobResourceContents(blob=data, mime_type=kind):
                images.append(f"data:{kind};base64,{data}")
    return "\n".join(texts), tuple(images)


def tools(found: Iterable[types.Tool]) -> Iterator[ServerTool]:
    for tool in found:
        reads = bool(tool.annotations and tool.annotations.read_only_hint)
        schema = dict(tool.input_schema)
        yield ServerTool(tool.name, tool.description or "", schema, read_only=reads)


def prompts(found: Iterable[types.Prompt]) -> Iterator[ServerPrompt]:
    for prompt in found:
        arguments = [(each.name, bool(each.required)) for each in prompt.arguments or ()]
        yield ServerPrompt(prompt.name, prompt.description or "", arguments)


def resources(found: Iterable[types.Resource]) -> Iterator[ServerResource]:
    for resource in found:
        yield ServerResource(resource.uri, resource.name, resource.description or "")
