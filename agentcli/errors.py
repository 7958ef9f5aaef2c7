"""The exception tree. Each class carries the exit code of a run that ends with it.

AgentError                      shown to the user as one message, never as a traceback
├── UsageError           (2)    wrong arguments, unknown or locked session
│   └── NothingChosen    (2)    the user left a list without choosing
├── ConfigError          (3)    configuration or credentials
│   └── SetupNeeded      (3)    no model, or no key for it
├── SessionError         (1)    a session that can't be read or written
├── OutputError          (1)    stdout can't be written, though somebody reads it
├── LLMError             (4)    the provider failed; `kind` says how, the hint says what to do
│   └── TryAgainLater    (75)   the provider asks for a longer wait than we accept
├── ToolError            (-)    the model's mistake or a tool's failure, reported to the model
└── TurnInterrupted      (130)  ^C, SIGTERM; a BaseException, so that nothing swallows it
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum


class AgentError(Exception):
    """An error that the user sees as one message. `hint` says what to do next, in one sentence."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(AgentError):
    exit_code = 2


class NothingChosen(UsageError):
    def __init__(self) -> None:
        super().__init__("nothing chosen")


class ConfigError(AgentError):
    exit_code = 3


class SetupNeeded(ConfigError):
    """No model is set, or there is no key for the one that is; at a terminal the user can be asked
    for them. `provider` is set when only the key of that provider is missing."""

    def __init__(self, message: str, *, hint: str = "", provider: str = "") -> None:
        super().__init__(message, hint=hint)
        self.provider = provider


class SessionError(AgentError):
    """A session can't be read or written."""


class OutputError(AgentError):
    """Stdout can't be written, though somebody reads it."""


@contextmanager
def internal_errors(
    reported: Callable[[Exception], AgentError], *expected: type[Exception]
) -> Iterator[None]:
    """Raise what nobody expects as the AgentError that `reported` makes of it: for the border of a
    piece of work, where any bug, also in code of others, must end that piece and not the rest.
    Other AgentErrors, and those that are `expected`, are raised as they are."""
    known: tuple[type[Exception], ...] = (AgentError, *expected)
    try:
        yield
    except known:
        raise
    except Exception as error:
        raise reported(error) from error


def internal_error_text(error: Exception) -> str:
    return f"internal error: {type(error).__name__}: {error}"


def os_error_text(error: OSError) -> str:
    """Return what the system reported, and for which file."""
    where = f" ({error.filename})" if error.filename else ""
    return f"{error.strerror or error}{where}"


class LLMErrorKind(StrEnum):
    """What went wrong at the provider, in the categories that decide what happens next."""

    AUTH = "auth"
    AUTH_PERMANENT = "auth_permanent"
    BILLING = "billing"
    RATE_LIMIT = "rate_limit"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    NOT_RUNNING = "not_running"
    """Nothing listens at an address of this machine, so waiting won't help."""
    STALLED = "stalled"
    CONTEXT_OVERFLOW = "context_overflow"
    PAYLOAD_TOO_LARGE = "payload_too_large"
    MODEL_NOT_FOUND = "model_not_found"
    CONTENT_POLICY = "content_policy"
    BAD_REQUEST = "bad_request"
    BAD_RESPONSE = "bad_response"
    BUDGET = "budget"
    """The request was not sent: it could have cost more than the user allowed."""
    UNKNOWN = "unknown"


RETRYABLE = frozenset(
    {
        LLMErrorKind.RATE_LIMIT,
        LLMErrorKind.OVERLOADED,
        LLMErrorKind.SERVER_ERROR,
        LLMErrorKind.TIMEOUT,
        LLMErrorKind.CONNECTION,
        LLMErrorKind.STALLED,
        LLMErrorKind.BAD_RESPONSE,
    }
)

_CONFIGURATION_KINDS = frozenset(
    {LLMErrorKind.AUTH, LLMErrorKind.AUTH_PERMANENT, LLMErrorKind.MODEL_NOT_FOUND}
)


class LLMError(AgentError):
    """A failed model call. `retry_after` is the wait in seconds the server asked for, if any;
    `said` is all that the server said about it, with codes and names of parameters. `generation` is
    what the model wrote as a call that the server could not read."""

    def __init__(
        self,
        kind: LLMErrorKind,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        hint: str = "",
        said: str = "",
        generation: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.kind = kind
        self.said = said
        self.generation = generation
        self.status = status
        self.retry_after = retry_after

    @property
    def retryable(self) -> bool:
        return self.kind in RETRYABLE

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        return 3 if self.kind in _CONFIGURATION_KINDS else 4


class TryAgainLater(LLMError):
    @property
    def exit_code(self) -> int:  # type: ignore[override]
        return 75


class ToolError(AgentError):
    """An error the model should read and act on; it becomes an error observation."""

    def __init__(self, message: str, *, error_id: str = "tool_failed") -> None:
        super().__init__(message)
        self.error_id = error_id


_INTERRUPTS = {
    141: "stopped: nobody reads the output of this run any more",
    143: "stopped: the process was told to end",
}
"""What the model is told when the interrupt was no key press, by exit code."""


class TurnInterrupted(BaseException):
    """The turn was asked to stop from outside. `exit_code` is 130 (SIGINT), 143 (SIGTERM) or 141
    (stdout closed); `model_message` is what the model is told about it."""

    def __init__(self, reason: str, exit_code: int) -> None:
        super().__init__(reason)
        self.model_message = _INTERRUPTS.get(exit_code, "interrupted by the user")
        self.reason = reason
        self.exit_code = exit_code
