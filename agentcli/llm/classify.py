"""The meaning of HTTP statuses and error bodies, for every provider that speaks HTTP."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from agentcli.errors import LLMError, LLMErrorKind

_BY_STATUS = {
    400: LLMErrorKind.BAD_REQUEST,
    401: LLMErrorKind.AUTH,
    402: LLMErrorKind.BILLING,
    403: LLMErrorKind.AUTH_PERMANENT,
    404: LLMErrorKind.MODEL_NOT_FOUND,
    408: LLMErrorKind.TIMEOUT,
    409: LLMErrorKind.OVERLOADED,
    413: LLMErrorKind.PAYLOAD_TOO_LARGE,
    422: LLMErrorKind.BAD_REQUEST,
    429: LLMErrorKind.RATE_LIMIT,
    503: LLMErrorKind.OVERLOADED,
    504: LLMErrorKind.TIMEOUT,
    529: LLMErrorKind.OVERLOADED,
}

_STATUS_BY_WORD = {
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "context_length_exceeded": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "timeout_error": 408,
    "request_too_large": 413,
    "insufficient_quota": 429,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "server_is_overloaded": 503,
    "slow_down": 503,
    "overloaded_error": 529,
}
"""Maps types and codes of error frames to the status they would have had as a response."""

_OVERFLOW = re.compile(
    r"context[_ ](?:length|window|size|limit)|prompt is too long|maximum context|too many tokens"
    r"|input is too long|exceeds? the (?:model|available context)|input token count"
    r"|too long to fit|maximum prompt length|model token limit|prompt token count"
    r"|reduce the length of the messages|range of input length",
    re.IGNORECASE,
)
_OVERFLOW_STATUSES = (400, 413, 422, 500)
_REQUEST_TOO_LARGE = re.compile(r"request too large for", re.IGNORECASE)
"""More tokens than a minute's allowance, so that waiting does not help."""

_BILLING = re.compile(
    r"insufficient_quota|billing|credit balance|exceeded your current quota", re.I
)
_POLICY = re.compile(
    r"content[_ ](?:policy|filter)|usage polic|safety system|data_inspection_failed", re.I
)
_OUTPUT_LIMIT = re.compile(r"max_(?:completion_|output_)?tokens\b", re.I)
_RETRY_IN = re.compile(r"retry in ([\d.]+) ?s", re.I)
"""How Gemini words it that a quota per minute is used up."""

_ERRNO = re.compile(r"^\[Errno -?\d+\] ")
"""The prefix that Python puts before the system's message."""

_LONGEST_WAIT_S = 1e7
_LONGEST_SAID = 20_000
_LONGEST_MESSAGE = 500
"""Most characters kept of a provider's message."""

_HINTS = {
    LLMErrorKind.AUTH: "check the key and where it comes from: agent doctor",
    LLMErrorKind.AUTH_PERMANENT: "the key is not allowed to do this",
    LLMErrorKind.BILLING: "the account has no credit left; another model: -m provider/model",
    LLMErrorKind.MODEL_NOT_FOUND: "see what there is: agent models",
    LLMErrorKind.CONTEXT_OVERFLOW: "go on with a model of a larger window: -m provider/model",
    LLMErrorKind.CONNECTION: "is the server up, and the address right? agent doctor",
}


def classify(status: int, body: object, headers: Mapping[str, str], origin: str) -> LLMError:
    """Return the error for an answer with `status`; `origin` is the server's name for people."""
    if 300 <= status < 400:
        target = headers.get("location", "another address").partition("?")[0]
        return LLMError(
            LLMErrorKind.BAD_REQUEST,
            f"{origin} redirects to {target}; not followed, to keep the prompt and key here",
            status=status,
            hint="if that is where the API is, set it as the base URL",
        )
    return _classified(status, body, headers, f"{origin} answers {status}")


def stream_error(error: object) -> LLMError:
    """Return the error for an error frame in a stream or in an answer with status 200. Its `code`
    may be a status."""
    words = [_field(error, "code"), _field(error, "type")]
    known = [_STATUS_BY_WORD[word] for word in words if word in _STATUS_BY_WORD]
    known += [int(word) for word in words if re.fullmatch(r"[45]\d\d", word)]
    status = known[0] if known else 500
    return _classified(status, error, {}, "the server broke off")


def _classified(status: int, body: object, headers: Mapping[str, str], what: str) -> LLMError:
    message = _message(body)
    wait = retry_after(headers)
    kind = _kind(status, f"{message} {_field(body, 'code')} {_field(body, 'type')}")
    if status == 429 and (again := _RETRY_IN.search(message)):
        kind, wait = LLMErrorKind.RATE_LIMIT, wait or _seconds(again[1])
    hint = _HINTS.get(kind, "")
    if kind is LLMErrorKind.MODEL_NOT_FOUND and "model" not in message.lower():
        hint = "is the base URL that of the API, and the model's name right? agent models"
    if kind is LLMErrorKind.BAD_REQUEST and _OUTPUT_LIMIT.search(message):
        hint = "a smaller limit: --set model.max_output_tokens=4096"
    return LLMError(
        kind,
        f"{what}: {message or kind.replace('_', ' ')}",
        status=status,
        retry_after=wait,
        hint=hint,
        said=_all_said(body),
    )


def _all_said(body: object) -> str:
    """Return everything in an error's body as one text, in which names stand in plain quotes."""
    if not isinstance(body, str):
        body = json.dumps(body, ensure_ascii=False, default=str)
    return body[:_LONGEST_SAID].replace("\\", "")


def _kind(status: int, words: str) -> LLMErrorKind:
    """Classify by status, unless the provider's words say better what must happen next."""
    if status in _OVERFLOW_STATUSES and _OVERFLOW.search(words):
        return LLMErrorKind.CONTEXT_OVERFLOW
    if status in (413, 429) and _REQUEST_TOO_LARGE.search(words):
        return LLMErrorKind.CONTEXT_OVERFLOW
    if status in (400, 402, 403, 429) and _BILLING.search(words):
        return LLMErrorKind.BILLING
    if status in (400, 403, 422) and _POLICY.search(words):
        return LLMErrorKind.CONTENT_POLICY
    fallback = LLMErrorKind.SERVER_ERROR if status >= 500 else LLMErrorKind.BAD_REQUEST
    return _BY_STATUS.get(status, fallback)


def http_failure(origin: str, error: BaseException, start: str = "") -> LLMError | None:
    """Return the error for an exception of the HTTP client, None for any other. `start` is the
    command that starts the server, if it is a local one."""
    import httpx2

    what = _ERRNO.sub("", str(error)) or type(error).__name__
    if isinstance(error, httpx2.ConnectError) and _is_local(origin) and _is_refused(error):
        again = "or see what else can be reached: agent models"
        return LLMError(
            LLMErrorKind.NOT_RUNNING,
            f"nothing listens at {origin}",
            hint=f"start it: {start}\n  {again}" if start else f"start the server; {again}",
        )
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
        return LLMError(
            LLMErrorKind.CONNECTION,
            f"can't reach {origin}: {what}",
            hint=_HINTS[LLMErrorKind.CONNECTION],
        )
    if isinstance(error, httpx2.TimeoutException):
        return LLMError(LLMErrorKind.TIMEOUT, f"{origin} did not answer in time")
    if isinstance(error, httpx2.TransportError):
        return LLMError(LLMErrorKind.CONNECTION, f"the connection to {origin} broke: {what}")
    if isinstance(error, httpx2.DecodingError):
        return LLMError(LLMErrorKind.BAD_RESPONSE, f"{origin} sent a garbled answer ({what})")
    return None


def _is_local(origin: str) -> bool:
    host = urlsplit(origin).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def _is_refused(error: BaseException | None) -> bool:
    """Whether the system refused the connection, however often that error was wrapped."""
    while error is not None and not isinstance(error, ConnectionRefusedError):
        error = error.__cause__ or error.__context__
    return error is not None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds the server asks to wait: `retry-after-ms`, or `retry-after` as seconds or
    a date. LiteLLM's proxy passes the latter on under its own name."""
    milliseconds = _seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after") or headers.get("llm_provider-retry-after", "")
    seconds = _seconds(value)
    return _until(value) if seconds is None else seconds


def _seconds(value: str) -> float | None:
    return min(float(value), _LONGEST_WAIT_S) if re.fullmatch(r"\d+(\.\d+)?", value) else None


def _until(date: str) -> float | None:
    try:
        seconds = (parsedate_to_datetime(date) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(0.0, seconds), _LONGEST_WAIT_S)


def _inner(body: object) -> object:
    """Return the error object; some servers put it into a list or omit the wrapper around it."""
    if isinstance(body, list) and body:
        body = body[0]
    return body.get("error", body) if isinstance(body, Mapping) else body


def _field(body: object, name: str) -> str:
    inner = _inner(body)
    return str(inner.get(name) or "") if isinstance(inner, Mapping) else ""


def _message(body: object) -> str:
    """Return the provider's own message, cut to a few lines; empty for an HTML page."""
    inner = _inner(body)
    text: Any = _field(body, "message") or _field(body, "detail")
    if not text and isinstance(inner, str) and not inner.lstrip().startswith("<"):
        text = inner
    words = " ".join(str(text).split())
    if len(words) <= _LONGEST_MESSAGE:
        return words
    # Cut between words: half a secret could no longer be recognised as one.
    return words[:_LONGEST_MESSAGE].rpartition(" ")[0] + " …"
