"""Offer the tools of servers in a session: each by its name, or through a search."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import ConfigDict, Field

from agentcli.errors import ToolError
from agentcli.events import Action
from agentcli.events.actions import MCPAction
from agentcli.events.observations import MCPObservation
from agentcli.mcp.servers import ToolServers
from agentcli.mcp.values import ServerFeatures, ServerTool, StdioServer, tool_schema
from agentcli.messages import ToolSchema
from agentcli.shell.output import kept_text
from agentcli.tools.base import Effect, Tool, ToolArguments, ToolContext, ToolResult, with_notes

SEARCH, CALL = "mcp_search", "mcp_call"
MOST_SHOWN = 40
"""Most tools whose schemas are all shown to the model, however short the schemas are."""
BYTES_PER_TOKEN = 4
_MOST_FOUND = 5
_MOST_NAMED = 20
_MOST_SEARCH_CHARS = 20_000
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
    """All tools of the servers by name; of two with the same name, only the first. They are those
    that the servers have now."""

    def __init__(self, servers: ToolServers) -> None:
        self._servers = servers
        self._features: list[ServerFeatures] = []
        self.renew()

    def renew(self) -> list[Found]:
        """Apply changes, and return the new tools."""
        self._servers.renew()
        every = list(self._servers.features())
        features = [offered for _, offered in every]
        if list(map(id, features)) == list(map(id, self._features)):
            return []
        self._features, before = features, dict(self)
        self.clear()
        for plan, offered in every:
            effect = Effect.EXECUTE if isinstance(plan.transport, StdioServer) else Effect.NETWORK
            for tool in offered.tools:
                found = Found(plan.name, tool, tool_schema(plan.name, tool), effect)
                self.setdefault(found.schema.name, found)
        return [found for name, found in self.items() if name not in before]

    @property
    def may_change(self) -> bool:
        return any(offered.may_change for offered in self._features)

    def named(self, name: str) -> Found:
        """Return the tool called `name`. Raises ToolError."""
        if name not in self:
            self.renew()
        if name not in self:
            near = ", ".join(each.schema.name for each in self.search(name))
            hint = f"Did you mean {near}?" if near else f"{SEARCH} finds tools."
            raise ToolError(f"There is no tool {name!r} of a server. {hint}")
        return self[name]

    def search(self, query: str) -> list[Found]:
        """Return the few tools that fit best: words in a name count more than in a description."""
        words = set(_WORD.findall(query.casefold()))

        def score(found: Found) -> float:
            if query.strip() in (found.schema.name, found.tool.name):
                return 1_000
            name = found.schema.name.removeprefix("mcp__").casefold()
            text = found.schema.description.casefold()
            return sum(3 * (word in name) + (word in text) for word in words)

        best = sorted(filter(score, self.values()), key=score, reverse=True)
        return best[:_MOST_FOUND]


class SessionTools:
    """The tools of `servers` for a session. The model gets their schemas if these take at most
    `most_tokens`, else just those of a search tool and a call tool; the latter is also for tools
    that a server has only later, so that the prompt stays as it is."""

    def __init__(self, servers: ToolServers, most_tokens: float) -> None:
        self._servers = servers
        self._index = index = ToolIndex(servers)
        tokens = sum(found.tokens for found in index.values())
        self._searched = len(index) > MOST_SHOWN or tokens > most_tokens

    def at_start(self) -> list[Tool[Any]]:
        named = [self._named(each, offered=not self._searched) for each in self._index.values()]
        return [*named, self._search_tool(), self._call_tool()]

    def later(self, name: str) -> Tool[Any] | None:
        """Return the tool called `name` if a server has it by now."""
        if name not in self._index:
            self._index.renew()
        found = self._index.get(name)
        return None if found is None else self._named(found, offered=False)

    def _named(self, found: Found, *, offered: bool) -> Tool[Any]:
        def run(arguments: AnyArguments, context: ToolContext) -> ToolResult:
            return self._call(found, arguments.model_extra or {}, context)

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

    def _search_tool(self) -> Tool[Any]:
        def search(arguments: SearchArguments, context: ToolContext) -> ToolResult:
            self._index.renew()
            return ToolResult(_listed(self._index, arguments.query))

        return Tool(
            name=SEARCH,
            arguments=SearchArguments,
            effect=Effect.READ,
            run=search,
            offered=self._searched,
            about=f"Find tools of these servers: {_counted(self._index)}. The answer has their "
            f"schemas; call them with {CALL}.",
        )

    def _call_tool(self) -> Tool[Any]:
        def call(arguments: CallArguments, context: ToolContext) -> ToolResult:
            return self._call(self._index.named(arguments.tool), arguments.arguments, context)

        which = f"that {SEARCH} found" if self._searched else "that a result says is new"
        return Tool(
            name=CALL,
            arguments=CallArguments,
            effect=Effect.EXECUTE,
            run=call,
            to_action=lambda tool, arguments: self._index.named(tool).action(arguments),
            to_observation=MCPObservation,
            offered=self._searched or self._index.may_change,
            about=f"Call a tool {which}.",
        )

    def _call(self, found: Found, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Call a tool. A long answer is shortened for the model, and saved whole in a file."""
        begun = time.monotonic()
        tool = found.tool.name
        answer = self._servers.call(found.server, tool, dict(arguments), context.live_output)
        most_chars = context.max_output_chars
        kept = kept_text(answer.text, context.outputs, f"{found.server}-{{}}.txt", most_chars)
        text = kept.text
        if not text.strip() and not answer.images:
            text = "[it answered nothing]"
        structured = answer.structured
        if structured and len(json.dumps(structured, ensure_ascii=False)) > most_chars:
            structured = None
        return ToolResult(
            with_notes(text, _note_about(self._index.renew())),
            answer.images,
            {
                "server": found.server,
                "name": tool,
                "error": answer.error,
                "structured": structured,
                "full_output_path": kept.path,
                "duration_s": round(time.monotonic() - begun, 3),
            },
        )


def _note_about(new: Sequence[Found]) -> str:
    """Return a note about tools that a server has only now, with the schemas of the first."""
    if not new:
        return ""
    named = ", ".join(each.schema.name for each in new[:_MOST_NAMED])
    more = f" and {len(new) - _MOST_NAMED} more" if len(new) > _MOST_NAMED else ""
    schemas = "\n\n".join(_schema_text(each) for each in new[:_MOST_FOUND])
    note = f"There are new tools: {named}{more}. Call them with {CALL}.\n{schemas}"
    return note[:_MOST_SEARCH_CHARS]


def _counted(index: ToolIndex) -> str:
    counts = Counter(found.server for found in index.values())
    named = [f"{name} ({number})" for name, number in counts.items()]
    more = len(named) - _MOST_NAMED
    named = named[:_MOST_NAMED]
    return ", ".join([*named, f"{more} more"] if more > 0 else named)


def _listed(index: ToolIndex, query: str) -> str:
    """Return the answer to a search: all tools of a server, or the best matches with schemas."""
    of_server = [found.schema for found in index.values() if found.server == query.strip()]
    if of_server:
        lines = [f"{schema.name}: {schema.description[:120]}" for schema in of_server]
        return "\n".join(lines)[:_MOST_SEARCH_CHARS]
    found = index.search(query)
    if not found:
        return f"Nothing fits. The servers are: {_counted(index)}. Name one to list its tools."
    return "\n\n".join(map(_schema_text, found))[:_MOST_SEARCH_CHARS]


def _schema_text(found: Found) -> str:
    schema = found.schema
    parameters = json.dumps(schema.parameters, ensure_ascii=False, separators=(",", ":"))
    return f"{schema.name}\n{schema.description}\narguments: {parameters}"
