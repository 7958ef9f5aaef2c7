"""The protocol's terms: choices and tool servers as settings, errors and endings as answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from acp.exceptions import RequestError
from acp.schema import (
    AcpMcpServer,
    HttpMcpServer,
    McpServerStdio,
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
    SseMcpServer,
    StopReason,
)

from agentcli.agent.ending import Ending
from agentcli.errors import AgentError, ConfigError, LLMErrorKind, SetupNeeded, UsageError
from agentcli.llm.provider import LEVELS
from agentcli.settings import ServerSettings, Settings, is_server_name
from agentcli.ui.text import printable

MODE, MODEL, EFFORT = "mode", "model", "effort"
SETTINGS = {MODE: "agent.approval", MODEL: "model.name", EFFORT: "model.effort"}
"""The setting of each choice."""

_USUAL = "default"
"""The effort if none is asked for."""
_EFFORTS = (_USUAL, *LEVELS)
_MODES: Mapping[str, tuple[str, str]] = {
    "ask": ("Ask", "Asks for what the sandbox or a checkpoint doesn't hold"),
    "auto-edit": ("Auto-edit", "As Ask, and changes files unasked where there is no sandbox"),
    "plan": ("Plan", "Reads, changes nothing"),
    "yolo": ("YOLO", "Asks nothing; what is denied or blocked stays so"),
}
_MOST_MODELS = 100


def modes(current: str) -> SessionModeState:
    return SessionModeState(
        current_mode_id=current,
        available_modes=[
            SessionMode(id=name, name=shown, description=about)
            for name, (shown, about) in _MODES.items()
        ],
    )


def options(
    mode: str, model: str, effort: str, models: Sequence[str]
) -> list[SessionConfigOptionSelect]:
    """Return the choices with their present values; `models` are the others to choose from."""
    names = list(dict.fromkeys([model, *models]))[:_MOST_MODELS]
    return [
        _select(MODE, "Mode", mode, ((name, *each) for name, each in _MODES.items())),
        _select(MODEL, "Model", model, ((name, name, "") for name in names)),
        _select(
            EFFORT, "Effort", effort or _USUAL, ((name, name.title(), "") for name in _EFFORTS)
        ),
    ]


def value_of(option: str, value: str) -> str | None:
    """Return the choice as the settings have it; None if there is no such choice. Any text may name
    a model."""
    known: Mapping[str, Iterable[str]] = {MODE: _MODES, EFFORT: _EFFORTS, MODEL: (value,)}
    if value not in known[option] or not value.strip():
        return None
    return "" if option == EFFORT and value == _USUAL else value


def _select(
    option: str, name: str, current: str, values: Iterable[tuple[str, str, str]]
) -> SessionConfigOptionSelect:
    category = {MODE: "mode", MODEL: "model"}.get(option, "thought_level")
    return SessionConfigOptionSelect.model_validate(
        {
            "type": "select",
            "id": option,
            "name": name,
            "category": category,
            "current_value": current,
            "options": [
                SessionConfigSelectOption(value=value, name=shown, description=about or None)
                for value, shown, about in values
            ],
        }
    )


EditorServer = HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio

_LONGEST_NAME = 32
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9]+")


def with_servers(settings: Settings, given: Iterable[EditorServer], notices: list[str]) -> Settings:
    """Add the editor's servers to `settings`; they are contained like any other. For each one that
    is left out a line is added to `notices`. What the user has set under a name stays: a whole
    server of their own, or what they let the editor's server do."""
    servers = dict(settings.mcp_servers)
    for server in given:
        name = server_name(server.name)
        own = servers.get(name)
        try:
            if not is_server_name(name):
                raise ConfigError("its name has no letter or digit")
            if own is not None and (own.command or own.url):
                raise ConfigError(f"there is one named {name} already")
            way = _way(server)
            servers[name] = (own or ServerSettings()).model_copy(update=way)
        except ConfigError as fault:
            notices.append(f"the editor's tool server {server.name!r} is left out: {fault.message}")
    return settings.model_copy(update={"mcp_servers": servers})


def server_name(text: str) -> str:
    """Return the name of an editor's server here: "IntelliJ IDEA" becomes IntelliJ-IDEA."""
    return _NOT_IN_NAMES.sub("-", text)[:_LONGEST_NAME].strip("-")


def _way(server: EditorServer) -> dict[str, object]:
    """Return the settings by which a server is reached. Raises ConfigError."""
    match server:
        case McpServerStdio():
            if not server.command:
                raise ConfigError("it has no command")
            env = {each.name: _literal(each.value) for each in server.env}
            args = list(map(_literal, server.args))
            return {"command": _literal(server.command), "args": args, "env": env}
        case HttpMcpServer():
            if not server.url.startswith(("http://", "https://")):
                raise ConfigError("its url must begin with http:// or https://")
            headers = {each.name: _literal(each.value) for each in server.headers}
            return {"url": _literal(server.url), "headers": headers}
        case SseMcpServer():
            raise ConfigError("the old SSE transport is not supported")
    raise ConfigError("a server of the editor itself can't be reached")


def _literal(text: str) -> str:
    """Escape `text`, so that nothing in it is taken for a variable: the editor has expanded its
    own already."""
    return text.replace("${", "${_AGENT_LITERAL:-$}{")


_INVALID_REQUEST, _INVALID_PARAMS, _INTERNAL = -32600, -32602, -32603
_AUTH_REQUIRED, _NOT_FOUND = -32000, -32002
_NO_ACCESS = frozenset((LLMErrorKind.AUTH, LLMErrorKind.AUTH_PERMANENT))
_STOPPED = frozenset((130, 141, 143))


def invalid_params(name: str, why: str) -> RequestError:
    return RequestError(_INVALID_PARAMS, f"Invalid params: {name} {why}", {name: why})


def not_now(why: str) -> RequestError:
    return RequestError(_INVALID_REQUEST, f"Invalid request: {why}")


def unknown_session(session_id: str) -> RequestError:
    message = f"there is no session {printable(session_id, multiline=False)!r}"
    return RequestError(_NOT_FOUND, message, {"sessionId": session_id})


def request_error(error: AgentError) -> RequestError:
    """Return the error with its hint in the message, as editors show nothing else."""
    if isinstance(error, SetupNeeded):
        return _auth_required(error.message, error.hint)
    code = _INVALID_REQUEST if isinstance(error, UsageError) else _INTERNAL
    return _error(code, error.message, error.hint)


def stop_reason(ending: Ending) -> StopReason:
    """Return why a turn ended. Raises RequestError for a turn that failed."""
    if ending.exit_code in _STOPPED:
        return "cancelled"
    if ending.is_over:
        return "end_turn"
    if ending.at_limit:
        return "max_turn_requests"
    if ending.reason == LLMErrorKind.CONTENT_POLICY:
        return "refusal"
    if ending.reason == LLMErrorKind.CONTEXT_OVERFLOW:
        return "max_tokens"
    if ending.reason in _NO_ACCESS:
        raise _auth_required(ending.content, ending.hint)
    raise _error(_INTERNAL, ending.content or ending.reason, ending.hint, reason=ending.reason)


def _auth_required(message: str, hint: str) -> RequestError:
    usual = "run `agent setup` in a terminal, or give the agent a key in its environment"
    return _error(_AUTH_REQUIRED, f"Authentication required: {message}", hint or usual)


def _error(code: int, message: str, hint: str, **data: Any) -> RequestError:
    whole = printable("\n".join(filter(None, (message, hint))))
    return RequestError(code, whole, {"message": message, "hint": hint, **data})
