"""The agent's side of the protocol: answers what an editor asks."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from acp import AgentSideConnection
from acp.exceptions import RequestError
from acp.interfaces import Client
from acp.meta import PROTOCOL_VERSION
from acp.schema import (
    AgentCapabilities,
    AuthenticateResponse,
    AuthMethodAgent,
    ClientCapabilities,
    CloseSessionResponse,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    McpCapabilities,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    ResumeSessionResponse,
    SessionAdditionalDirectoriesCapabilities,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionResumeCapabilities,
    SetSessionConfigOptionResponse,
    SetSessionModeResponse,
    TerminalAuthMethod,
)

from agentcli import __version__
from agentcli.acp.editor import AnyUpdate, Editor
from agentcli.acp.prompts import Block
from agentcli.acp.session import EditorSession, SessionDefaults, SessionPlace, require_model
from agentcli.acp.terms import (
    EFFORT,
    MODE,
    MODEL,
    SETTINGS,
    EditorServer,
    invalid_params,
    not_now,
    request_error,
    unknown_session,
    value_of,
)
from agentcli.acp.transport import StdioTransport
from agentcli.errors import (
    AgentError,
    SessionError,
    TurnInterrupted,
    UsageError,
    internal_error_text,
    internal_errors,
    os_error_text,
)
from agentcli.sessions.finder import find, new_folder, offered
from agentcli.system.homes import state_home
from agentcli.system.programs import user_environ
from agentcli.ui.text import printable

T = TypeVar("T")

_SETUP = "setup"
_SETUP_FLAG = "--setup"
_PAGE = 50
"""How many sessions one answer lists."""
_END_S = 15.0
"""How long a session has to close. What is recorded is whole in any case."""

log = logging.getLogger(__name__)


class EditorAgent:
    """An `Agent` of the SDK. `defaults` are what its sessions begin with."""

    def __init__(self, defaults: SessionDefaults) -> None:
        self._defaults = defaults
        self._home = state_home(user_environ())
        self._sessions: dict[str, EditorSession] = {}
        self._models: Sequence[str] | None = None
        """Models to choose from; None until they have been looked for."""
        self._later: set[asyncio.Task[None]] = set()

    def on_connect(self, client: Client) -> None:
        self._editor = Editor(client, asyncio.get_running_loop())

    # --- the connection

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: ClientCapabilities | None = None,
        client_info: Implementation | None = None,
        **meta: Any,
    ) -> InitializeResponse:
        self._editor.capabilities = client_capabilities or ClientCapabilities()
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=Implementation(name="agent", title="agent", version=__version__),
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(image=True, embedded_context=True),
                mcp_capabilities=McpCapabilities(http=True),
                session_capabilities=SessionCapabilities(
                    list=SessionListCapabilities(),
                    resume=SessionResumeCapabilities(),
                    close=SessionCloseCapabilities(),
                    additional_directories=SessionAdditionalDirectoriesCapabilities(),
                ),
            ),
            auth_methods=list(self._ways_to_a_key()),
        )

    async def authenticate(self, method_id: str, **meta: Any) -> AuthenticateResponse:
        """Only look whether there is a key now."""
        if method_id not in (_SETUP, f"{_SETUP}-terminal"):
            raise invalid_params("methodId", f"must be {_SETUP}")
        try:
            await asyncio.to_thread(require_model, self._defaults)
        except AgentError as error:
            raise request_error(error) from error
        return AuthenticateResponse()

    def _ways_to_a_key(self) -> list[TerminalAuthMethod | AuthMethodAgent]:
        about = "Asks for a provider, a key and a model; or give the agent a key in its environment"
        ways: list[TerminalAuthMethod | AuthMethodAgent] = []
        auth = self._editor.capabilities.auth
        if auth is not None and auth.terminal:
            ways.append(
                TerminalAuthMethod(
                    type="terminal",
                    id=f"{_SETUP}-terminal",
                    name="agent setup",
                    description=about,
                    args=[_SETUP_FLAG],
                )
            )
        ways.append(AuthMethodAgent(id=_SETUP, name="agent setup in a terminal", description=about))
        return ways

    # --- sessions

    async def new_session(
        self,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[EditorServer] | None = None,
        **meta: Any,
    ) -> NewSessionResponse:
        place = _place(cwd, additional_directories, mcp_servers)
        session = EditorSession(self._defaults, self._editor, new_folder(self._home), place)
        await self._opened(session, session.begin)
        return NewSessionResponse(session_id=session.id, **self._choices(session))

    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: list[EditorServer] | None = None,
        additional_directories: list[str] | None = None,
        **meta: Any,
    ) -> LoadSessionResponse:
        place = _place(cwd, additional_directories, mcp_servers)
        return LoadSessionResponse(**await self._loaded(session_id, place, replay=True))

    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[EditorServer] | None = None,
        **meta: Any,
    ) -> ResumeSessionResponse:
        place = _place(cwd, additional_directories, mcp_servers)
        return ResumeSessionResponse(**await self._loaded(session_id, place, replay=False))

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **meta: Any
    ) -> ListSessionsResponse:
        workspace = None if cwd is None else _folder("cwd", cwd)
        if cursor is not None and not cursor.isdecimal():
            raise invalid_params("cursor", "is none that was given out")
        begin = int(cursor or 0)
        found = await asyncio.to_thread(self._listed, workspace)
        more = begin + _PAGE < len(found)
        return ListSessionsResponse(
            sessions=found[begin : begin + _PAGE],
            next_cursor=str(begin + _PAGE) if more else None,
        )

    async def close_session(self, session_id: str, **meta: Any) -> CloseSessionResponse:
        await self._end(self._session(session_id), TurnInterrupted("interrupted", 130))
        return CloseSessionResponse()

    async def close_all(self, reason: TurnInterrupted) -> None:
        """Stop all sessions and close them."""
        await asyncio.gather(*(self._end(each, reason) for each in list(self._sessions.values())))

    # --- in a session

    async def prompt(self, session_id: str, prompt: list[Block], **meta: Any) -> PromptResponse:
        session = self._free_session(session_id)
        with session.working():
            reason = await self._on_thread(session, lambda: session.prompt(prompt))
        return PromptResponse(stop_reason=reason)

    async def cancel(self, session_id: str, **meta: Any) -> None:
        session = self._sessions.get(session_id)
        if session is not None:
            session.stop(TurnInterrupted("interrupted", 130))

    async def set_session_mode(
        self, session_id: str, mode_id: str, **meta: Any
    ) -> SetSessionModeResponse:
        session = self._session(session_id)
        await self._choose(session, MODE, mode_id, "modeId")
        self._tell_later(session, self._options_of(session))
        return SetSessionModeResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **meta: Any
    ) -> SetSessionConfigOptionResponse:
        session = self._session(session_id)
        if config_id not in SETTINGS:
            raise invalid_params("configId", f"must be one of {', '.join(SETTINGS)}")
        await self._choose(session, config_id, str(value), "value")
        if config_id == MODE:
            mode = session.modes().current_mode_id
            update = CurrentModeUpdate(session_update="current_mode_update", current_mode_id=mode)
            self._tell_later(session, update)
        return SetSessionConfigOptionResponse(config_options=session.options(self._models or ()))

    async def _choose(self, session: EditorSession, option: str, value: str, name: str) -> None:
        """Set an option of a session. Raises RequestError."""
        chosen = value_of(option, value)
        if chosen is None:
            raise invalid_params(name, f"can't be {printable(value, multiline=False)!r}")
        if option == MODE:
            # Takes effect at once, even in the middle of a turn.
            try:
                session.set_mode(chosen)
            except AgentError as error:
                raise request_error(error) from error
            return
        if session.busy:
            raise not_now(f"the {option} can be changed when the turn is over")
        change = {MODEL: session.set_model, EFFORT: session.set_effort}[option]
        await self._on_thread(session, lambda: change(chosen))

    # --- helpers

    def _choices(self, session: EditorSession) -> dict[str, Any]:
        return {"modes": session.modes(), "config_options": session.options(self._models or ())}

    def _session(self, session_id: str) -> EditorSession:
        """Return the open session. Raises RequestError if there is none."""
        if session_id not in self._sessions:
            raise unknown_session(session_id)
        return self._sessions[session_id]

    def _free_session(self, session_id: str) -> EditorSession:
        session = self._session(session_id)
        if session.busy:
            raise not_now("this session works on a prompt already; cancel that first")
        return session

    async def _loaded(
        self, session_id: str, place: SessionPlace, *, replay: bool
    ) -> dict[str, Any]:
        """Open a stored session and return its choices."""
        if session_id in self._sessions:
            # The editor has lost track of it, or wants other tool servers.
            await self._end(self._free_session(session_id), TurnInterrupted("interrupted", 130))
        try:
            folder = find(self._home, session_id)
        except UsageError as error:
            raise unknown_session(session_id) from error
        if folder.name != session_id:
            raise unknown_session(session_id)
        session = EditorSession(self._defaults, self._editor, folder, place)
        await self._opened(session, lambda: session.load(replay=replay))
        return self._choices(session)

    async def _opened(self, session: EditorSession, begin: Callable[[], None]) -> None:
        """Open a session by `begin`. The editor gets its commands and models after the answer."""
        self._sessions[session.id] = session
        try:
            with session.working():
                await self._on_thread(session, begin)
        except BaseException:
            del self._sessions[session.id]
            session.worker.end()
            raise
        self._do_later(self._offer(session))

    async def _offer(self, session: EditorSession) -> None:
        with suppress(RequestError):
            await self._on_thread(session, session.announce)
        if self._models is None:
            builder = session.builder
            with suppress(AgentError, OSError):
                self._models = await asyncio.to_thread(lambda: builder.registry().usual_names())
                await self._editor.client.session_update(session.id, self._options_of(session))

    async def _end(self, session: EditorSession, reason: TurnInterrupted) -> None:
        self._sessions.pop(session.id, None)
        session.stop(reason)
        closing = session.worker.do(session.close)
        session.worker.end()
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.wrap_future(closing), _END_S)

    async def _on_thread(self, session: EditorSession, call: Callable[[], T]) -> T:
        """Do `call` on the session's thread. Raises RequestError for whatever goes wrong in it."""

        def reported(error: Exception) -> AgentError:
            log.exception("in session %s", session.id)
            return AgentError(internal_error_text(error), hint="see the log of the session")

        def safely() -> T:
            try:
                with internal_errors(reported, OSError, RequestError):
                    return call()
            except TurnInterrupted as interrupt:
                raise not_now(interrupt.reason) from interrupt
            except AgentError as error:
                raise request_error(error) from error
            except OSError as error:
                raise request_error(SessionError(os_error_text(error))) from error

        return await asyncio.wrap_future(session.worker.do(safely))

    def _options_of(self, session: EditorSession) -> ConfigOptionUpdate:
        return ConfigOptionUpdate(
            session_update="config_option_update",
            config_options=session.options(self._models or ()),
        )

    def _tell_later(self, session: EditorSession, update: AnyUpdate) -> None:
        """Send an update after the answer to the present request."""

        async def tell() -> None:
            with suppress(ConnectionError):
                await self._editor.client.session_update(session.id, update)

        self._do_later(tell())

    def _do_later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    def _listed(self, workspace: Path | None) -> list[SessionInfo]:
        return [
            SessionInfo(
                session_id=found.folder.name,
                cwd=found.state.workspace,
                title=printable(found.state.name or found.state.title, multiline=False),
                updated_at=str(found.state.updated_at),
            )
            for found in offered(self._home, workspace)
        ]


def _place(
    cwd: str, more: Sequence[str] | None, servers: Sequence[EditorServer] | None
) -> SessionPlace:
    """Return where a session is to work. Raises RequestError."""
    folders = tuple(str(_folder("additionalDirectories", each)) for each in more or ())
    return SessionPlace(_folder("cwd", cwd), folders, tuple(servers or ()))


def _folder(name: str, path: str) -> Path:
    """Return the resolved folder. Raises RequestError if it is none."""
    folder = Path(path)
    if not folder.is_absolute():
        raise invalid_params(name, "must be an absolute path")
    try:
        if not folder.is_dir():
            raise invalid_params(name, "is no folder that is there")
    except (OSError, ValueError) as error:
        raise invalid_params(name, "is no folder that is there") from error
    return folder.resolve()


_EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 143}


def serve(defaults: SessionDefaults) -> int:
    """Serve, and return the exit code: 0 if the editor has closed its end."""
    return asyncio.run(_serve(defaults))


async def _serve(defaults: SessionDefaults) -> int:
    transport = StdioTransport()
    agent = EditorAgent(defaults)
    connection = AgentSideConnection(agent, transport, listening=False, use_unstable_protocol=True)
    signalled = _end_signal()
    ends = [asyncio.ensure_future(each) for each in (connection.listen(), transport.closed.wait())]
    await asyncio.wait([*ends, signalled], return_when=asyncio.FIRST_COMPLETED)
    code = signalled.result() if signalled.done() else 0
    if code:
        reason = TurnInterrupted("interrupted" if code == 130 else "terminated", code)
    else:
        reason = TurnInterrupted("the editor is gone", 141)
    await agent.close_all(reason)
    for end in ends:
        end.cancel()
    with suppress(ConnectionError):
        await connection.close()
    return code


def _end_signal() -> asyncio.Future[int]:
    """Return a future that gets the exit code once a signal asks for the end. A second signal ends
    the process at once; what is on disk is whole."""
    loop = asyncio.get_running_loop()
    signalled: asyncio.Future[int] = loop.create_future()

    def tell(code: int) -> None:
        if signalled.done():
            os._exit(code)
        signalled.set_result(code)

    for number, code in _EXIT_CODES.items():
        loop.add_signal_handler(number, tell, code)
    return signalled
