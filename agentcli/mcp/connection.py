"""One connection to a server, built on the SDK. Its coroutines run in the event loop's thread.

Requests bypass the SDK's check of results against the schemas that a server declares: a pattern in
a schema can keep the interpreter busy forever, and the model needs no such check.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import anyio
import mcp_types as types
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from agentcli import __version__
from agentcli.errors import ToolError
from agentcli.mcp.fitting import Fitting, UnknownVersion
from agentcli.mcp.transports import Health, http_streams, stdio_streams
from agentcli.mcp.values import (
    Answer,
    ServerFeatures,
    ServerPlan,
    ServerPrompt,
    ServerResource,
    ServerTool,
    StdioServer,
)
from agentcli.shell.output import clean


def tool_answer(result: types.CallToolResult) -> Answer:
    """Convert a tool's result. Structured data becomes the text if there is nothing else."""
    text, images = _rendered(result.content)
    structured = result.structured_content
    if not text.strip() and not images and structured is not None:
        text = json.dumps(structured, ensure_ascii=False, indent=1)
    return Answer(text, images, structured, error=bool(result.is_error))


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


MOST_PAGES = 50
MOST_TOOLS = 2_000
_SLACK_S = 5.0
"""Added to the SDK's own time limit, to end what the SDK waits for without a limit."""
_SAID_CHARS = 300

_TELLS_WHY = re.compile(r"\b(?:\w*Error|\w*Exception|error|fatal|not found)\b")

T = TypeVar("T")
OnProgress = Callable[[str], None]


class Connection:
    """A connection to one server. `settled` is set once the server has answered, or it is clear
    that it won't; `features` is what it offers. `was_ready` says whether it ever answered, even if
    the connection has ended since."""

    def __init__(self, plan: ServerPlan, workspace: Path) -> None:
        self.plan = plan
        self.settled = threading.Event()
        self.was_ready = False
        self._fault = ""
        self.features = ServerFeatures()
        self._workspace = workspace
        self._health = Health()
        self._session: ClientSession | None = None
        self._fitting: Fitting | None = None
        self.has_changed = False
        """Whether the server's tools are others than those in `features`."""

    @property
    def alive(self) -> bool:
        return self._session is not None and not self._health.fault

    @property
    def why_not(self) -> str:
        """Why the connection is not alive, with the program's last words, which usually tell."""
        fault = self._fault or self._health.fault or "it ended"
        lines = [line.strip() for line in clean(self._health.said).strip().splitlines()]
        errors = [line for line in lines if _TELLS_WHY.search(line)]
        last_words = [*lines[-1:], *errors][-1:]
        return "; it said: ".join([fault, *(words[:_SAID_CHARS] for words in last_words)])

    async def run(self) -> None:
        """Keep the connection from start to end; whatever goes wrong is in `why_not`."""
        try:
            await self._connected()
        except Exception as error:
            # This may be anything, such as a SubprocessError of a sandbox that can't be set up.
            self._fault = self._fault or self._health.fault or _in_words(error)
        finally:
            self._session = None
            self.settled.set()

    def stop(self) -> None:
        """Make `run` end."""
        self._health.ended.set()

    async def call_tool(
        self, name: str, arguments: dict[str, Any], on_progress: OnProgress
    ) -> Answer:
        """Call a tool and return its answer. Raises ToolError."""

        async def tell(progress: float, total: float | None, message: str | None) -> None:
            share = f"{progress:g}/{total:g}" if total else f"{progress:g}"
            on_progress(f"{share} {message}" if message else share)

        params = types.CallToolRequestParams(name=name, arguments=arguments)
        result = await self._answered(
            lambda session: session.send_request(
                types.CallToolRequest(params=params),
                types.CallToolResult,
                request_read_timeout_seconds=self.plan.timeout_s,
                progress_callback=tell,
            )
        )
        await self.renew()
        return tool_answer(result)

    async def renew(self) -> None:
        """List the server's tools again if it has said that they changed. If that fails, they stay
        as they were."""
        if self.has_changed:
            self.has_changed = False
            with suppress(ToolError):
                tools, unfit = await self._answered(self._tools)
                self.features = replace(self.features, tools=tools, unfit=unfit)

    async def read_resource(self, uri: str) -> Answer:
        """Read a resource. Raises ToolError."""
        result = await self._answered(lambda session: session.read_resource(uri))
        return Answer(*_rendered(result.contents))

    async def get_prompt(self, name: str, arguments: dict[str, str]) -> Answer:
        """Get a prompt, filled in with `arguments`. Raises ToolError."""
        return prompt_answer(
            await self._answered(lambda session: session.get_prompt(name, arguments))
        )

    async def _connected(self) -> None:
        transport = self.plan.transport
        assert transport is not None
        streams = (
            stdio_streams(transport, self._health)
            if isinstance(transport, StdioServer)
            else http_streams(transport, self.plan.timeout_s, self._health)
        )
        async with streams as pair:
            self._fitting = Fitting(pair, lambda: setattr(self, "has_changed", True))
            session = ClientSession(
                dispatcher=self._fitting,
                read_timeout_seconds=self.plan.timeout_s,
                list_roots_callback=self._roots,
                client_info=types.Implementation(name="agent", version=__version__),
            )
            async with session:
                with anyio.move_on_after(self.plan.start_timeout_s) as limit:
                    try:
                        try:
                            await session.initialize()
                        except MCPError as error:
                            if error.code != types.UNSUPPORTED_PROTOCOL_VERSION:
                                raise
                            # The server no longer knows the original handshake.
                            await session.discover()
                        self.features = await self._everything(session)
                    except Exception as error:
                        # Before the end of the connection, which would hide why it ended.
                        self._fault = self._health.fault or _in_words(error)
                        return
                if limit.cancelled_caught:
                    limit_s = f"{self.plan.start_timeout_s:g}"
                    self._fault = f"it did not answer within {limit_s} s"
                    return
                self._session = session
                self.was_ready = True
                self.settled.set()
                await self._health.ended.wait()

    async def _everything(self, session: ClientSession) -> ServerFeatures:
        """Ask the server for all that it offers. Raises MCPError if it can't list its tools."""
        can = session.server_capabilities or types.ServerCapabilities()
        info = session.server_info
        tools, unfit = ([], ()) if can.tools is None else await self._tools(session)
        prompts: Sequence[types.Prompt] = ()
        resources: Sequence[types.Resource] = ()
        # Some servers announce prompts or resources that they don't have.
        with suppress(MCPError):
            if can.prompts is not None:
                prompts = (await session.list_prompts()).prompts
        with suppress(MCPError):
            if can.resources is not None:
                resources = (await session.list_resources()).resources
        return ServerFeatures(
            f"{info.name} {info.version}".strip() if info else "",
            tools,
            [
                ServerPrompt(
                    each.name,
                    each.description or "",
                    [(argument.name, bool(argument.required)) for argument in each.arguments or ()],
                )
                for each in prompts[:MOST_TOOLS]
            ],
            [
                ServerResource(each.uri, each.name, each.description or "")
                for each in resources[:MOST_TOOLS]
            ],
            may_change=bool(can.tools and can.tools.list_changed),
            unfit=unfit,
        )

    async def _tools(
        self, session: ClientSession
    ) -> tuple[list[ServerTool], Sequence[tuple[str, str]]]:
        """Return the server's tools that are wanted, and those that can't be used."""
        assert self._fitting is not None
        found = tools(await _all_tools(session))
        return [tool for tool in found if self.plan.includes(tool.name)], self._fitting.unfit

    async def _roots(self, context: ClientRequestContext) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=self._workspace.as_uri())])

    async def _answered(self, ask: Callable[[ClientSession], Awaitable[T]]) -> T:
        session = self._session
        if session is None:
            raise ToolError(f"The tool server {self.plan.name} is gone.", error_id="server_gone")
        name = self.plan.name
        try:
            with anyio.fail_after(self.plan.timeout_s + _SLACK_S):
                return await ask(session)
        except (MCPError, TimeoutError) as error:
            if self._health.fault:
                self.stop()
                message = f"The tool server {name} failed while it worked on this: "
                message += f"{self.why_not}. Its effect is unknown."
                raise ToolError(message, error_id="server_died") from error
            if isinstance(error, TimeoutError) or error.code == types.REQUEST_TIMEOUT:
                message = f"{name} did not answer within {self.plan.timeout_s:g} s, and was told "
                message += "to stop. Its effect is unknown."
                raise ToolError(message, error_id="server_timeout") from error
            raise ToolError(f"{name} refused: {error.message}", error_id="server_error") from error
        except (ValidationError, RuntimeError, ValueError) as error:
            message = f"{name} sent an invalid response: {type(error).__name__}."
            raise ToolError(message, error_id="server_error") from error


def _in_words(error: Exception) -> str:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, OSError):
        return f"it can't be started: {error.strerror or error}"
    if isinstance(error, UnknownVersion):
        return str(error)
    if isinstance(error, MCPError):
        known = error.data.get("supported") if isinstance(error.data, dict) else None
        versions = f" (it knows {', '.join(map(str, known))})" if isinstance(known, list) else ""
        return f"it refused: {error.message}{versions}"
    return f"it violated the protocol ({type(error).__name__})"


async def _all_tools(session: ClientSession) -> list[types.Tool]:
    """Raises MCPError; but a server without a method for tools just has none."""
    found: list[types.Tool] = []
    cursors: list[str | None] = [None]
    try:
        while len(cursors) <= MOST_PAGES and len(found) < MOST_TOOLS:
            params = types.PaginatedRequestParams(cursor=cursors[-1])
            page = await session.list_tools(params=params)
            found += page.tools
            if page.next_cursor in (None, *cursors):
                break
            cursors.append(page.next_cursor)
    except MCPError as error:
        if error.code != types.METHOD_NOT_FOUND:
            raise
    return found[:MOST_TOOLS]
