"""Prompts of an editor: text, files that it points at, resources and images."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from acp.schema import (
    AudioContentBlock,
    BlobResourceContents,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

from agentcli.app.attachments import attached
from agentcli.errors import UsageError
from agentcli.knowledge.instructions import wrap_in_tag
from agentcli.shell.output import kept_text
from agentcli.tools.base import ToolContext
from agentcli.workspace.images import ImageFault, data_url

Block = (
    TextContentBlock
    | ImageContentBlock
    | AudioContentBlock
    | ResourceContentBlock
    | EmbeddedResourceContentBlock
)


@dataclass(frozen=True)
class Resource:
    """Something whose content the editor sends along, such as an unsaved buffer."""

    uri: str
    text: str


@dataclass(frozen=True)
class Prompt:
    """A prompt. `typed` is what the user wrote, with the names of the places that they point
    at."""

    typed: str
    resources: tuple[Resource, ...] = ()
    image_urls: tuple[str, ...] = ()

    def text(self, context: ToolContext) -> str:
        """Return the message with the resources below it. Of a long one the middle is kept in a
        file of the session."""
        parts = [self.typed]
        for resource in self.resources:
            kept = kept_text(
                resource.text, context.outputs, "resource-{}.txt", context.max_output_chars
            )
            parts.append(wrap_in_tag("tool_result", kept.text, resource=resource.uri))
        return "\n\n".join(filter(None, parts))


def read_prompt(
    blocks: Sequence[Block], workspace: Path, objection: Callable[[Path], str]
) -> Prompt:
    """Make a prompt of the editor's blocks. `objection` says why a file may not be read. Raises
    UsageError for that, and for what no model can be shown."""
    typed: list[str] = []
    resources: list[Resource] = []
    images: list[str] = []
    for block in blocks:
        match block:
            case TextContentBlock(text=text):
                typed.append(text)
            case ImageContentBlock():
                images.append(_image(block, objection))
            case ResourceContentBlock(uri=uri, name=name):
                typed.append(_named(uri, name, workspace))
            case EmbeddedResourceContentBlock(resource=TextResourceContents(uri=uri, text=text)):
                typed.append(_named(uri, "", workspace))
                resources.append(Resource(uri, text))
            case EmbeddedResourceContentBlock(resource=BlobResourceContents() as blob):
                typed.append(_named(blob.uri, "", workspace))
                images.append(_of_bytes(blob.blob, blob.uri))
            case _:
                raise UsageError("sound can't be shown to a model", hint="say it in words")
    prompt = Prompt("".join(typed).strip(), tuple(resources), tuple(images))
    if not prompt.typed and not prompt.image_urls:
        raise UsageError("the prompt is empty", hint="say what is to be done")
    return prompt


def _named(uri: str, name: str, workspace: Path) -> str:
    """Return the name that a user would use: files by their path from the workspace, with
    lines."""
    parts = urlsplit(uri)
    if parts.scheme != "file":
        return f"{name} ({uri})" if name and name != uri else uri
    path = Path(unquote(parts.path))
    shown = path.relative_to(workspace) if path.is_relative_to(workspace) else path
    lines = f":{parts.fragment.replace('L', '')}" if parts.fragment.startswith("L") else ""
    return f"@{shown}{lines}"


def _image(block: ImageContentBlock, objection: Callable[[Path], str]) -> str:
    parts = urlsplit(block.uri or "")
    if block.data or parts.scheme != "file":
        return _of_bytes(block.data, block.uri or "the image")
    return attached([Path(unquote(parts.path))], objection)[0]


def _of_bytes(data: str, name: str) -> str:
    try:
        return data_url(base64.b64decode(data, validate=True))
    except binascii.Error as error:
        raise UsageError(f"{name} is not in base64") from error
    except ImageFault as fault:
        raise UsageError(f"{name} {fault}") from fault
