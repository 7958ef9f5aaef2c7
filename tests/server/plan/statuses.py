"""Answers with an error status, in the providers' own words, and redirects."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

from ..script import HttpError, Raw, Redirect, Step
from .fault import CHAT, KEY, RESPONSES, SHORTENED, Fails, Fault, Scene, final, mended, passing

FAULTS: dict[str, Fault] = {}


def says(
    status: int,
    openai: tuple[str, str],
    anthropic: tuple[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Callable[[Scene], Step]:
    """An error of each provider's kind and message; Anthropic's as OpenAI's unless given."""

    def step(scene: Scene) -> Step:
        kind, message = (anthropic or ("", openai[1])) if scene.anthropic else openai
        return HttpError(status, kind, message, headers or {})

    return step


def sends(
    status: int, body: object, content_type: str = "application/json"
) -> Callable[[Scene], Step]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda scene: Raw(raw, content_type, status)


_HTML = b"<!DOCTYPE html>\n<html><head><title>502</title></head><body>Bad gateway</body></html>"
_TOO_LARGE = Fails("payload_too_large or context_overflow", requests=SHORTENED)
_ASKED_ONCE = {
    "400": (
        says(400, ("", "Invalid 'input[3]'."), ("", "messages.3: wrong")),
        Fails("bad_request"),
    ),
    "401": (
        says(401, ("invalid_api_key", "Incorrect API key."), ("", "invalid x-api-key")),
        Fails("auth", 3, says="agent doctor"),
    ),
    "401 with the key": (
        says(401, ("invalid_api_key", f"Incorrect API key provided: {KEY}.")),
        Fails("auth", 3, says="agent doctor"),
    ),
    "402": (says(402, ("", "Insufficient credits.")), Fails("billing", says="credit")),
    "403": (says(403, ("", "Country not supported.")), Fails("auth_permanent", 3)),
    "404 model": (
        says(404, ("model_not_found", "The model `x` does not exist."), ("", "model: x")),
        Fails("model_not_found", 3, says="agent models"),
    ),
    "404 path": (sends(404, {"detail": "Not Found"}), Fails("model_not_found", 3, says="base URL")),
    "404 page": (sends(404, _HTML, "text/html"), Fails("model_not_found", 3, says="base URL")),
    "413": (says(413, ("", "Too large."), ("", "Request too large.")), _TOO_LARGE),
    "413 page": (sends(413, _HTML, "text/html"), _TOO_LARGE),
    "418": (sends(418, {"error": "short and stout"}), Fails("bad_request", says="stout")),
    "422": (
        sends(422, {"detail": [{"loc": ["body", "tools"], "msg": "field required"}]}),
        Fails("bad_request", says="field required"),
    ),
    "429 quota": (
        says(
            429,
            ("insufficient_quota", "You exceeded your current quota, please check your plan."),
            ("billing_error", "Your credit balance is too low to access the Anthropic API."),
        ),
        Fails("billing"),
    ),
    "400 credit": (
        says(400, ("billing_hard_limit_reached", "Billing hard limit has been reached.")),
        Fails("billing"),
    ),
    "400 policy": (
        says(
            400,
            ("content_policy_violation", "Your request was rejected by our safety system."),
            ("", "Output blocked by content filtering policy"),
        ),
        Fails("content_policy"),
    ),
    "400 flagged": (
        says(400, ("invalid_prompt", "Your prompt was flagged as violating our usage policy.")),
        Fails("content_policy"),
    ),
    "gemini list": (
        sends(
            400,
            [
                {
                    "error": {
                        "code": 400,
                        "message": "Precondition check failed.",
                        "status": "INVALID",
                    }
                }
            ],
        ),
        Fails("bad_request", says="Precondition"),
    ),
}
for _name, (_step, _expected) in _ASKED_ONCE.items():
    FAULTS |= final(_name, _step, _expected)

# What names its cause is asked once more without it.
_OUTPUT = says(
    400,
    ("invalid_value", "max_tokens is too large: 16384. This model supports at most 4096."),
    ("", "max_tokens: 16384 > 8192, which is the maximum allowed number of output tokens"),
)
FAULTS |= passing("400 max_tokens, once", _OUTPUT)
FAULTS |= final(
    "400 max_tokens, always", _OUTPUT, Fails("bad_request", requests=2, says="max_output_tokens")
)

_ASKED_AGAIN = {
    "408": (says(408, ("", "Request timeout.")), "timeout"),
    "409": (says(409, ("", "Conflict.")), "overloaded"),
    "429": (
        says(429, ("rate_limit_exceeded", "Rate limit reached for requests."), ("", "Slow down.")),
        "rate_limit",
    ),
    "500": (says(500, ("server_error", "The server had an error."), ("", "Oops")), "server_error"),
    "500 empty": (sends(500, b""), "server_error"),
    "502 page": (sends(502, _HTML, "text/html"), "server_error"),
    "503": (says(503, ("", "The engine is overloaded.")), "overloaded"),
    "504": (says(504, ("", "Gateway timeout.")), "timeout"),
    "524": (sends(524, b"error code: 524", "text/plain"), "server_error"),
    "529": (says(529, ("", "Overloaded"), ("overloaded_error", "Overloaded")), "overloaded"),
}
for _name, (_step, _kind) in _ASKED_AGAIN.items():
    FAULTS |= mended(_name, _step, _kind)

_STREAMED: dict[str, Any] = {"streamed": (True,)}
# Fixed dates, as tests are named by them.
_SOON = format_datetime(datetime(2020, 11, 1, tzinfo=UTC), usegmt=True)
_LATE = format_datetime(datetime(2090, 11, 1, tzinfo=UTC), usegmt=True)
_BUSY = ("rate_limit_exceeded", "Rate limit reached.")


def _waits(name: str, value: str) -> Callable[[Scene], Step]:
    return says(429, _BUSY, ("rate_limit_error", "Slow down."), {name: value})


for _value in ("0", "0.01", _SOON, "-5", "soon", "nan", "Mon, 99 Foo 2020", ""):
    FAULTS |= passing(f"retry-after {_value!r}", _waits("retry-after", _value), **_STREAMED)
for _value in ("1", "-100", "nan", "soon", ""):
    FAULTS |= passing(f"retry-after-ms {_value!r}", _waits("retry-after-ms", _value), **_STREAMED)
_TOO_LONG = Fails("rate_limit", 75, says="resume after")
for _value in ("3600", _LATE, "Fri, 31 Dec 9999 23:59:59 GMT", "9" * 400):
    _step = _waits("retry-after", _value)
    FAULTS |= final(f"retry-after {_value[:30]!r} is too long", _step, _TOO_LONG, **_STREAMED)
FAULTS |= final("retry-after-ms too long", _waits("retry-after-ms", "3600000"), _TOO_LONG)
FAULTS |= mended(
    "gemini quota per minute",
    sends(
        429,
        [{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message":
          "You exceeded your current quota, please check your plan and billing details. "
          "Please retry in 0.01s."}}],
    ),
    "rate_limit",
    apis=(CHAT,),
)  # fmt: skip
FAULTS |= final(
    "tokens per minute are fewer than the request has",
    says(429, ("rate_limit_exceeded", "Request too large for gpt-4 on tokens per min (TPM)")),
    Fails("context_overflow", requests=SHORTENED),
    apis=(CHAT, RESPONSES),
)


def _redirect(status: int) -> Callable[[Scene], Step]:
    return lambda scene: Redirect(f"{scene.elsewhere}/v1/messages?key={KEY}", status)


for _status in (301, 302, 303, 307, 308):
    FAULTS |= final(f"redirect {_status}", _redirect(_status), Fails("bad_request", says="redirec"))
