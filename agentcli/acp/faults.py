"""Expresses errors and the end of a turn in the protocol's terms."""

from __future__ import annotations

from typing import Any

from acp.exceptions import RequestError
from acp.schema import StopReason

from agentcli.agent.ending import Ending
from agentcli.errors import AgentError, LLMErrorKind, SetupNeeded, UsageError
from agentcli.ui.sanitize import printable

_INVALID_REQUEST, _INVALID_PARAMS, _INTERNAL = -32600, -32602, -32603
_AUTH_REQUIRED, _NOT_FOUND = -32000, -32002
_NO_ACCESS = frozenset((LLMErrorKind.AUTH, LLMErrorKind.AUTH_PERMANENT))
_STOPPED = frozenset((130, 141, 143))


def invalid_params(name: str, why: str) -> RequestError:
    return RequestError(_INVALID_PARAMS, f"Invalid params: {name} {why}", {name: why})


def not_now(why: str) -> RequestError:
    return RequestError(_INVALID_REQUEST, f"Invalid request: {why}")


def unknown_session(session_id: str) -> RequestError:
    told = f"there is no session {printable(session_id, multiline=False)!r}"
    return RequestError(_NOT_FOUND, told, {"sessionId": session_id})


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
    told = printable("\n".join(filter(None, (message, hint))))
    return RequestError(code, told, {"message": message, "hint": hint, **data})
