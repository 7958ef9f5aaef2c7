"""What the user mentions of tool servers: resources in a message, prompts as commands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agentcli.errors import ToolError, UsageError
from agentcli.events.actions import server_tool_name
from agentcli.knowledge.definitions import split_arguments
from agentcli.knowledge.instructions import wrap_in_tag
from agentcli.mcp.values import one_line
from agentcli.shell.output import kept_text
from agentcli.tools.base import ToolContext

if TYPE_CHECKING:
    from agentcli.mcp.servers import ToolServers
    from agentcli.mcp.values import ServerPrompt

_MENTION = re.compile(r"(?<!\S)@([A-Za-z0-9_-]+):(\S+)")
_ARGUMENT = re.compile(r"([\w.-]+)=(.*)", re.DOTALL)


def with_resources(
    servers: ToolServers, context: ToolContext, text: str, typed: str
) -> tuple[str, tuple[str, ...]]:
    """Return `text` followed by each resource that is mentioned as @server:uri in what was `typed`,
    and the resources' images. Raises UsageError if a server does not provide one."""
    images: list[str] = []
    for name, uri in dict.fromkeys(_MENTION.findall(typed)):
        if not servers.has(name):
            continue
        try:
            answer = servers.read_resource(name, uri)
        except ToolError as error:
            raise UsageError(f"@{name}:{uri} can't be read: {error.message}") from error
        kept = kept_text(answer.text, context.outputs, f"{name}-{{}}.txt", context.max_output_chars)
        text += f"\n\n{wrap_in_tag('tool_result', kept.text, server=name, resource=uri)}"
        images += answer.images
    return text, tuple(images)


def resources(servers: ToolServers) -> Iterator[tuple[str, str]]:
    """Yield the mention of each resource that servers list, with a description."""
    for plan, features in servers.features():
        for resource in features.resources:
            if resource.uri.isprintable() and " " not in resource.uri:
                told = one_line(resource.description or resource.name)
                yield f"@{plan.name}:{resource.uri}", told


def prompts(servers: ToolServers) -> Iterator[tuple[str, str, ServerPrompt]]:
    """Yield each prompt with the name that the user calls it by and the name of its server."""
    for plan, features in servers.features():
        for prompt in features.prompts:
            yield server_tool_name(plan.name, prompt.name), plan.name, prompt


def prompt_text(servers: ToolServers, called: str, argument: str) -> str | None:
    """Return what the prompt `called` says with these arguments, marked as words of its server;
    None if there is no such prompt. Raises UsageError."""
    for name, server, prompt in prompts(servers):
        if name == called:
            try:
                answer = servers.prompt(server, prompt.name, _arguments(called, prompt, argument))
            except ToolError as error:
                raise UsageError(error.message) from error
            return f"[/{called}, a prompt of the tool server {server}:]\n{answer.text}"
    return None


def takes(prompt: ServerPrompt) -> str:
    return " ".join(name if must else f"[{name}]" for name, must in prompt.arguments)


def _arguments(called: str, prompt: ServerPrompt, given: str) -> dict[str, str]:
    """Assign words to arguments in order, or by name=value; the last argument takes the rest.
    Raises UsageError if one is missing."""
    names = [name for name, _ in prompt.arguments]
    found: dict[str, str] = {}
    words = split_arguments(given)
    while words:
        named = _ARGUMENT.fullmatch(words[0])
        if named and named[1] in names:
            found[named[1]] = named[2]
            words = words[1:]
            continue
        free: Sequence[str] = [name for name in names if name not in found]
        if not free:
            raise UsageError(f"/{called} takes {takes(prompt) or 'nothing'} after its name")
        found[free[0]] = " ".join(words) if len(free) == 1 else words[0]
        words = [] if len(free) == 1 else words[1:]
    if missing := [name for name, must in prompt.arguments if must and name not in found]:
        raise UsageError(f"/{called} needs {', '.join(missing)}", hint=f"/{called} {takes(prompt)}")
    return found
