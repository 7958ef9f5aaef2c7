"""Offer the tools of servers in a session: each by its name, or through a search."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import ConfigDict, Field

from agentcli.errors import ToolError
from agentcli.events import Action
from agentcli.events.actions import MCPAction
from agentcli.events.observations import MCPObservation
from agentcli.mcp.answers import ServerFeatures, ServerTool
from agentcli.mcp.plan import ServerPlan, StdioServer
from agentcli.mcp.schemas import tool_schema
from agentcli.mcp.servers import ToolServers
from agentcli.messages import ToolSchema
from agentcli.shell.output import kept_text
from agentcli.tools.base import Effect, Tool, ToolArguments, ToolContext, ToolResult

SEARCH, CALL = "mcp_search", "mcp_call"
MOST_SHOWN = 40
"""Most tools whose schemas are all shown to the model, however short the schemas are."""
BYTES_PER_TOKEN = 4
_MOST_FOUND = 5
_MOST_SEARCH_CHARS = 20_000
_MOST_SERVERS_NAMED = 20
_WORD = re.compile(r"[a-z0-9]+")


class AnyArguments(ToolArguments):
    """Any arguments: the server declares them and checks them itself."""

    model_config = ConfigDict(extra="allow")


class SearchArguments(ToolArguments):
    query: str = Field(description="what it should do, a name, or a server for all of its tools")


class CallArguments(ToolArguments):
    tool: str = Field(description="as mcp_search names it")
    arguments: dict[str, Any] = {}


@dataclass(frozen=True)
class Found:
    """A tool of a server, with its server's name and its schema for the model."""

    server: str
    tool: ServerTool
    schema: ToolSchema
    effect: Effect

    @property
    def tokens(self) -> int:
        return len(json.dumps(asdict(self.schema), ensure_ascii=False)) // BYTES_PER_TOKEN

    def action(self, arguments: Mapping[str, Any]) -> Action:
        return MCPAction(server=self.server, name=self.tool.name, arguments=dict(arguments))


class ToolIndex(dict[str, Found]):
    """All tools of the servers by name; of two with the same name, only the first."""

    def __init__(self, features: Iterable[tuple[ServerPlan, ServerFeatures]]) -> None:
        for plan, offered in features:
            effect = Effect.EXECUTE if isinstance(plan.transport, StdioServer) else Effect.NETWORK
            for tool in offered.tools:
                found = Found(plan.name, tool, tool_schema(plan.name, tool), effect)
                self.setdefault(found.schema.name, found)

    def named(self, name: str) -> Found:
        """Return the tool called `name`. Raises ToolError."""
        if name not in self:
            near = ", ".join(each.schema.name for each in self.search(name))
            hint = f"Did you mean {near}?" if near else f"{SEARCH} finds tools."
            raise ToolError(f"There is no tool {name!r} of a server. {hint}")
        return self[name]

    def of_server(self, server: str) -> list[Found]:
        return [found for found in self.values() if found.server == server]

    def search(self, query: str) -> list[Found]:
        """Return the few tools that fit best: words in a name count more than in a description."""
        words = set(_WORD.findall(query.casefold()))
        scored = [(_score(found, words, query.strip()), found) for found in self.values()]
        best = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])
        return [found for _, found in best[:_MOST_FOUND]]


def _score(found: Found, words: set[str], query: str) -> float:
    if query in (found.schema.name, found.tool.name):
        return 1_000
    name = found.schema.name.removeprefix("mcp__").casefold()
    text = found.schema.description.casefold()
    return sum(3 * (word in name) + (word in text) for word in words)


def server_tools(servers: ToolServers, most_tokens: float) -> list[Tool[Any]]:
    """Return the tools of `servers` for a session. The model gets their schemas if these take at
    most `most_tokens`, else just those of a search tool and a call tool."""
    index = ToolIndex(servers.features())
    searched = (
        len(index) > MOST_SHOWN or sum(found.tokens for found in index.values()) > most_tokens
    )
    tools = [_named(servers, found, offered=not searched) for found in index.values()]
    return [*tools, *_on_demand(servers, index, offered=searched)]


def _named(servers: ToolServers, found: Found, *, offered: bool) -> Tool[Any]:
    def run(arguments: AnyArguments, context: ToolContext) -> ToolResult:
        return _call(servers, found, arguments.model_extra or {}, context)

    return Tool(
        name=found.schema.name,
        arguments=AnyArguments,
        effect=found.effect,
        run=run,
        to_action=lambda **arguments: found.action(arguments),
        to_observation=MCPObservation,
        offered=offered,
        given_schema=found.schema,
    )


def _on_demand(servers: ToolServers, index: ToolIndex, *, offered: bool) -> list[Tool[Any]]:
    def search(arguments: SearchArguments, context: ToolContext) -> ToolResult:
        return ToolResult(_listed(index, arguments.query))

    def call(arguments: CallArguments, context: ToolContext) -> ToolResult:
        return _call(servers, index.named(arguments.tool), arguments.arguments, context)

    return [
        Tool(
            name=SEARCH,
            arguments=SearchArguments,
            effect=Effect.READ,
            run=search,
            offered=offered,
            about=f"Find tools of these servers: {_counted(index)}. The answer has their schemas; "
            f"call them with {CALL}.",
        ),
        Tool(
            name=CALL,
            arguments=CallArguments,
            effect=Effect.EXECUTE,
            run=call,
            to_action=lambda tool, arguments: index.named(tool).action(arguments),
            to_observation=MCPObservation,
            offered=offered,
            about=f"Call a tool that {SEARCH} found.",
        ),
    ]


def _counted(index: ToolIndex) -> str:
    counts = Counter(found.server for found in index.values())
    named = [f"{name} ({number})" for name, number in counts.items()]
    more = len(named) - _MOST_SERVERS_NAMED
    named = named[:_MOST_SERVERS_NAMED]
    return ", ".join([*named, f"{more} more"] if more > 0 else named)


def _listed(index: ToolIndex, query: str) -> str:
    """Return the answer to a search: all tools of a server, or the best matches with schemas."""
    if everything := index.of_server(query.strip()):
        lines = [f"{each.schema.name}: {each.schema.description[:120]}" for each in everything]
        return "\n".join(lines)[:_MOST_SEARCH_CHARS]
    found = index.search(query)
    if not found:
        return f"Nothing fits. The servers are: {_counted(index)}. Name one to list its tools."
    told = "\n\n".join(_schema_text(each) for each in found)
    return told[:_MOST_SEARCH_CHARS]


def _schema_text(found: Found) -> str:
    schema = found.schema
    parameters = json.dumps(schema.parameters, ensure_ascii=False, separators=(",", ":"))
    return f"{schema.name}\n{schema.description}\narguments: {parameters}"


def _call(
    servers: ToolServers, found: Found, arguments: Mapping[str, Any], context: ToolContext
) -> ToolResult:
    """Call a tool. A long answer is shortened for the model, and saved whole in a file."""
    begun = time.monotonic()
    answer = servers.call(found.server, found.tool.name, dict(arguments), context.live_output)
    most_chars = context.max_output_chars
    kept = kept_text(answer.text, context.outputs, f"{found.server}-{{}}.txt", most_chars)
    text = kept.text
    if not text.strip() and not answer.images:
        text = "[it answered nothing]"
    return ToolResult(
        text,
        answer.images,
        {
            "server": found.server,
            "name": found.tool.name,
            "error": answer.error,
            "structured": _short(answer.structured, most_chars),
            "full_output_path": kept.path,
            "duration_s": round(time.monotonic() - begun, 3),
        },
    )


def _short(structured: Mapping[str, Any] | None, most_chars: int) -> dict[str, Any] | None:
    """Return the data unless it is too long to record besides the text."""
    if structured is None or len(json.dumps(structured, ensure_ascii=False)) > most_chars:
        return None
    return dict(structured)
