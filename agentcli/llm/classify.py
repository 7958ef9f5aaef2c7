"""What an HTTP status and an error body mean, for every provider that speaks HTTP."""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

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
    529: LLMErrorKind.OVERLOADED,
}

_OVERFLOW = re.compile(
    r"context[_ ](?:length|window)|prompt is too long|maximum context|too many tokens"
    r"|input is too long|exceeds? the (?:model|available context)",
    re.IGNORECASE,
)
_BILLING = re.compile(
    r"insufficient_quota|billing|credit balance|exceeded your current quota", re.I
)

_LONGEST_WAIT_S = 1e7

_HINTS = {
    LLMErrorKind.AUTH: "check the key and where it comes from: agent doctor",
    LLMErrorKind.AUTH_PERMANENT: "the key is not allowed to do this",
    LLMErrorKind.BILLING: "the account has no credit left; another model: -m provider/model",
    LLMErrorKind.MODEL_NOT_FOUND: "see what there is: agent models",
    LLMErrorKind.CONTEXT_OVERFLOW: "go on with a model of a larger window: -m provider/model",
    LLMErrorKind.CONNECTION: "is the server up, and the address right? agent doctor",
}


def classify(status: int, body: object, headers: Mapping[str, str], origin: str) -> LLMError:
    """The LLMError for an answer with `status`; `origin` names the server to the person."""
    message = _message(body)
    codes = f"{message} {_field(body, 'code')} {_field(body, 'type')}"
    if 300 <= status < 400:
        return LLMError(
            LLMErrorKind.BAD_REQUEST,
            f"{origin} redirects to {headers.get('location', 'another address')}; not followed, "
            "as prompt and key would go there",
            status=status,
            hint="if that is where the API is, set it as the base URL",
        )
    kind = _BY_STATUS.get(status)
    if kind is None:
        kind = LLMErrorKind.SERVER_ERROR if status >= 500 else LLMErrorKind.BAD_REQUEST
    if _OVERFLOW.search(codes) and status in (400, 413, 422, 500):
        kind = LLMErrorKind.CONTEXT_OVERFLOW
    elif _BILLING.search(codes) and status in (400, 402, 403, 429):
        kind = LLMErrorKind.BILLING
    elif status == 404 and "model" not in codes.lower():
        return LLMError(
            LLMErrorKind.MODEL_NOT_FOUND,
            f"{origin} answers 404: {message or 'not found'}",
            status=status,
            hint="is the base URL that of the API, and the model's name right? agent models",
        )
    return LLMError(
        kind,
        f"{origin} answers {status}: {message or kind.replace('_', ' ')}",
        status=status,
        retry_after=retry_after(headers),
        hint=_HINTS.get(kind, ""),
    )


def stream_error(error: object) -> LLMError:
    """An error frame inside a stream of OpenAI's kind; its `code` may be a status."""
    code = error.get("code") if isinstance(error, Mapping) else None
    status = code if isinstance(code, int) and code >= 400 else 500
    return classify(status, {"error": error}, {}, "the server")


def connection_error(origin: str, error: BaseException) -> LLMError:
    cause = error.__cause__ or error
    return LLMError(
        LLMErrorKind.CONNECTION,
        f"can't reach {origin}: {cause}",
        hint=_HINTS[LLMErrorKind.CONNECTION],
    )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds the server asks to wait: `retry-after-ms`, or `retry-after` as seconds or a date."""
    try:
        if milliseconds := headers.get("retry-after-ms"):
            return min(float(milliseconds) / 1000, _LONGEST_WAIT_S)
        value = headers.get("retry-after")
        if value is None:
            return None
        if re.fullmatch(r"\d+(\.\d+)?", value.strip()):
            return min(float(value), _LONGEST_WAIT_S)
        from datetime import UTC, datetime

        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None


def _field(body: object, name: str) -> str:
    if isinstance(body, Mapping):
        inner = body.get("error", body)
        if isinstance(inner, Mapping):
            return str(inner.get(name) or "")
    return ""


def _message(body: object) -> str:
    """The provider's own words, at most a few lines of them."""
    text: Any = _field(body, "message")
    if not text and isinstance(body, str) and "<html" not in body[:200].lower():
        text = body
    return " ".join(str(text).split())[:500]
