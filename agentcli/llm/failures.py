"""The meaning of HTTP statuses and error bodies, for every provider that speaks HTTP.

Forms of bodies that were seen: `{"error": {"message", "code", "type"}}` (OpenAI, Anthropic), the
same in a list (Gemini), `{"object": "error", "message"}` (vLLM, SGLang), `{"error": "text"}`,
`{"detail": "text"}` and `{"detail": [{"loc", "msg"}]}` (FastAPI), `{"code", "msg", "success"}`
(gateways from China), `{"base_resp": {"status_code", "status_msg"}}` (MiniMax), `{"error_msg"}`,
`{"title", "detail"}` (RFC 9457), and OpenRouter's, whose `metadata.raw` quotes the body of the
provider that it asked. None is asked for by name: whatever carries a message is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from agentcli.errors import RETRYABLE, LLMError, LLMErrorKind

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_PIECE = (
    r"(\d{1,12}(?:\.\d{1,12})?)\s*"
    r"(milliseconds?|ms|minutes?|mins?|m|seconds?|secs?|s|hours?|hrs?|h|days?|d)(?![a-z])"
)
_PIECES = re.compile(_PIECE, re.IGNORECASE)
_DURATION = rf"(?:{_PIECE}[\s,]*(?:and\s+)?)+"
_DURATION_ALONE = re.compile(_DURATION, re.IGNORECASE)
_IN_WORDS = re.compile(
    r"(?:try(?:ing)? again|retry(?:ing)?|wait|available|resets?)\s+(?:again\s+)?"
    rf"(?:(?:in|after|for|at least|about)\s+)*(?:{_DURATION}|(?P<bare>\d{{1,6}}(?:\.\d+)?)\b)",
    re.IGNORECASE,
)
_AT_TIME = re.compile(
    r"(?:try again|retry|available|resets?)\s+(?:again\s+)?(?:at|after|on)\s+"
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d))",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+(\.\d+)?")
_OLDEST_TIMESTAMP = 1e9
_OLDEST_TIMESTAMP_MS = 1e11
_LONGEST_WAIT_S = 1e7
_RESET_HEADER = re.compile(r"(?:x-|anthropic-)?ratelimit-(?:.+-)?reset(?:-.+)?", re.IGNORECASE)
_MESSAGES = (
    *("error", "errors", "title", "message", "Message", "msg", "error_msg", "error_message"),
    *("errorMessage", "status_msg", "error_description", "detail", "details", "base_resp"),
    *("exception", "fault", "faultstring", "reason", "innererror"),
)
"""Members that carry a message, or an object with one; the more general come first."""
_CODES = ("code", "type", "status", "status_code", "error_code", "errcode", "err_code")
_NAMED = ("param", "parameter", "field", "pointer", "instance")
_WAITS = ("retryDelay", "retry_after", "retry_after_ms")
_TAG = re.compile(r"<[!?a-z]", re.IGNORECASE)
_JSON = re.compile(r"^\s*(?=[\[{])|(?=\{\s*\")")
_DECODER = json.JSONDecoder()
_DEEPEST = 8
_MOST_ITEMS = 5
_LONGEST_MESSAGE = 500
"""Most characters kept of a provider's message."""
_LONGEST_SAID = 20_000
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
    r"context[_ ](?:length|window|size|limit)|maximum context|n_ctx|max_seq_len"
    r"|(?:(?<![a-z])(?:prompt|input|context|conversation|sequence)s?"
    r"|(?<![a-z])(?<!max[_ ])(?<!maximum )(?<!output[_ ])(?<!completion[_ ])(?<!new[_ ])tokens?"
    r"|\bmessages?(?!\[)|\.content'?:)(?![a-z])[^.;]{0,60}?"
    r"(?:exceed|too (?:long|large|many|big)|(?:longer|greater|larger) than"
    r"|(?:must|should) (?:be|have) (?:less|smaller))"
    r"|(?:prompt|input) (?:has|contains|is) \d+ tokens|too many (?:input )?tokens"
    r"|(?:prompt|input) token count"
    r"|(?:maximum|max) (?:allowed )?(?:input|prompt|model) (?:length|tokens)"
    r"|exceed(?:s|ed)? (?:the )?model|too long to fit|reduce the length of|range of input length"
    r"|inputs?`? tokens ?(?:\+|and) ?`?max_(?:new_)?tokens|`?inputs`? must have less than"
    r"|超长|过长|上下文长度|(?:token|输入)\S{0,8}超过",
    re.IGNORECASE,
)
"""How a conversation that is too long is refused by Anthropic, OpenAI, Gemini, Bedrock, Moonshot,
DashScope, Doubao, z.ai (`Prompt exceeds max length`), MiniMax, SiliconFlow, SambaNova, watsonx,
xAI, Mistral, Groq, Together, Copilot, Hugging Face's TGI (``inputs tokens + `max_new_tokens` must
be``), vLLM, SGLang, OpenVINO, TabbyAPI, MLX, llama.cpp, LM Studio and Ollama."""
_OVERFLOW_STATUSES = (400, 413, 422, 429, 500, 502, 503)
_REQUEST_TOO_LARGE = re.compile(r"request too large for|long context requests", re.IGNORECASE)
"""More tokens than a minute's or an account's allowance, so that waiting does not help."""
_RATE = re.compile(
    r"rate[ _-]?limit|too many requests|throttl|(?:tokens|requests) per (?:second|minute|hour|day)"
    r"|too many tokens, please wait|resource_exhausted",
    re.IGNORECASE,
)
_BILLING = re.compile(
    r"insufficient[ _](?:user[ _])?(?:quota|balance|credits?|funds)|credit balance|arrearage"
    r"|exceeded your current quota|balance (?:is )?(?:not enough|too low|insufficient)"
    r"|out of credits|requires more credits|余额不足|欠费|payment required|spend(?:ing)? limit",
    re.IGNORECASE,
)
_BILLING_TOPIC = re.compile(r"\bbilling\b|\brecharge\b|top up", re.IGNORECASE)
"""About money, which only with a status for refusals means that it lacks."""
_POLICY = re.compile(
    r"content[_ ](?:policy|filter)|usage polic|safety system|data_inspection_failed", re.I
)
_NO_MODEL = re.compile(
    r"model_not_found|(?:invalid|unknown|no such) model\b|not a valid model|model not exist"
    r"|\bmodel\b.{0,100}?\b(?:not (?:found|exist)|no longer (?:available|supported)"
    r"|decommissioned|(?:does not|doesn't) exist)",
    re.IGNORECASE,
)
"""`Invalid model name` is LiteLLM's, `Model Not Exist` DeepSeek's, both with status 400."""
_BAD_KEY = re.compile(
    r"(?:invalid|incorrect|expired) (?:proxy )?api[ _-]?key|invalid_api_key|api[ _-]?key not valid",
    re.IGNORECASE,
)
_CANT = re.compile(
    r"(?:does|do|is|are) not support|n't support|no endpoints found that support|unsupported"
    r"|requires --|requires? the --",
    re.IGNORECASE,
)
"""What asking again won't change, though the status says that it may."""
_OUTPUT_LIMIT = re.compile(r"max_(?:completion_|output_)?tokens\b", re.I)
_TEXT_FORMAT = 'or have calls made as text: tool_format = "text" for this provider'
_HINTS_BY_WORDS = (
    (re.compile("--jinja"), f"start llama-server with --jinja, {_TEXT_FORMAT}"),
    (
        re.compile("--enable-auto-tool-choice|--tool-call-parser"),
        f"start the server with these options, {_TEXT_FORMAT}",
    ),
    (
        re.compile(r"support (?:tools?\b|tool use|function)", re.I),
        f"choose a model that can call tools, {_TEXT_FORMAT}",
    ),
    (_OUTPUT_LIMIT, "a smaller limit: --set model.max_output_tokens=4096"),
)
"""Hints for requests that are refused, by a pattern on the server's words."""
_HINTS = {
    LLMErrorKind.AUTH: "check the key and where it comes from: agent doctor",
    LLMErrorKind.AUTH_PERMANENT: "the key is not allowed to do this",
    LLMErrorKind.BILLING: "the account's quota or credit is used up; another model: -m NAME",
    LLMErrorKind.MODEL_NOT_FOUND: "see what there is: agent models",
    LLMErrorKind.CONTEXT_OVERFLOW: "go on with a model of a larger window: -m provider/model",
}


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds the server asks to wait: `retry-after-ms`, or `retry-after` as a number
    with or without unit, or as a date. LiteLLM's proxy passes the latter on under its own name."""
    milliseconds = headers.get("retry-after-ms", "")
    if _NUMBER.fullmatch(milliseconds):
        return min(float(milliseconds) / 1000, _LONGEST_WAIT_S)
    return wait_of(headers.get("retry-after") or headers.get("llm_provider-retry-after", ""))


def wait_of(value: str) -> float | None:
    """Return the seconds that `value` means: a number of them, a duration (`1m2.5s`), or a time to
    come, as a timestamp in s or ms, an HTTP date or ISO 8601."""
    value = value.strip()
    if _NUMBER.fullmatch(value):
        number = float(value)
        if number >= _OLDEST_TIMESTAMP_MS:
            number /= 1000
        now = datetime.now(UTC).timestamp() if number >= _OLDEST_TIMESTAMP else 0.0
        return min(max(0.0, number - now), _LONGEST_WAIT_S)
    if _DURATION_ALONE.fullmatch(value):
        return _seconds(value)
    return _until(value)


def wait_in_words(message: str) -> float | None:
    """Return the wait in seconds that a message names, as in `try again in 1m2.5s`."""
    if found := _IN_WORDS.search(message):
        return float(found["bare"]) if found["bare"] else _seconds(found[0])
    at_time = _AT_TIME.search(message)
    return _until(at_time[1]) if at_time else None


def reset_in(headers: Mapping[str, str]) -> float | None:
    """Return the seconds until every limit that is used up starts anew, from the headers
    `x-ratelimit-reset…` (OpenAI, Groq, Cerebras, OpenRouter) and `anthropic-ratelimit-…-reset`.
    A limit is used up if its header with `remaining` in place of `reset` says 0 or is missing; a
    time too far away to be true does not count."""
    waits = [
        wait_of(value)
        for name, value in headers.items()
        if _RESET_HEADER.fullmatch(name)
        and headers.get(name.lower().replace("reset", "remaining"), "0") == "0"
    ]
    return max((wait for wait in waits if wait and wait < _LONGEST_WAIT_S), default=None)


def wait_text(seconds: float) -> str:
    """Return a wait for people, in its largest unit of which there are at least two."""
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} seconds"


def _seconds(duration: str) -> float:
    total = 0.0
    for number, unit in _PIECES.findall(duration):
        short = unit.lower()
        key = "ms" if short.startswith(("ms", "milli")) else short[0]
        total += float(number) * _UNITS[key]
    return min(total, _LONGEST_WAIT_S)


def _until(date: str) -> float | None:
    try:
        when = datetime.fromisoformat(date) if date[:4].isdigit() else parsedate_to_datetime(date)
        seconds = (when - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(0.0, seconds), _LONGEST_WAIT_S)


@dataclass
class ErrorBody:
    """What a body says. `codes` are the words and numbers that name the kind of error, `wait` is
    how long it says to wait, in its own words. `generation` is what the model wrote as a call that
    the server could not read (Groq)."""

    messages: list[str] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    wait: str = ""
    generation: str = ""
    named: list[str] = field(default_factory=list)
    """The parameters that the body names as the cause."""
    is_empty: bool = False

    @property
    def said(self) -> str:
        """All messages, codes that are words, and named parameters as one text. The request, which
        some servers repeat in the body of an error, is not in it."""
        words = [code for code in self.codes if not code.isdecimal()]
        named = [f"'{name.strip('/')}'" for name in self.named]
        return " ".join([*self.messages, *words, *named])[:_LONGEST_SAID].replace("\\", "")

    @property
    def message(self) -> str:
        """The messages as one line, cut to a length for people; empty if there is none."""
        words = " ".join(": ".join(self.messages).split())
        if len(words) <= _LONGEST_MESSAGE:
            return words
        # Cut between words: half a secret could no longer be recognised as one.
        return words[:_LONGEST_MESSAGE].rpartition(" ")[0] + " …"


def read_body(body: object) -> ErrorBody:
    """Return what the body of an error says; nothing for a page of HTML."""
    said = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, default=str)
    found = ErrorBody(is_empty=not said)
    for text in _texts(body, found, 0):
        if not any(text in other for other in found.messages):
            found.messages = [other for other in found.messages if other not in text] + [text]
    return found


def _texts(value: object, found: ErrorBody, depth: int) -> Iterator[str]:
    """Yield the messages in `value`, and keep what else it says in `found`."""
    if depth > _DEEPEST:
        return
    if isinstance(value, str):
        before, inner = _quoted(value)
        if inner is not None:
            texts = list(_texts(inner, found, depth + 1))
            if texts or inner:
                yield f"{before}{': '.join(texts)}" if texts else value.strip()
        elif (text := value.strip()) and not _TAG.match(text):
            yield text
    elif isinstance(value, list):
        for item in value[:_MOST_ITEMS]:
            yield from _texts(item, found, depth + 1)
    elif isinstance(value, Mapping):
        yield from _texts_of_object(value, found, depth)


def _texts_of_object(value: Mapping[str, Any], found: ErrorBody, depth: int) -> Iterator[str]:
    found.codes += [str(value[name]) for name in _CODES if isinstance(value.get(name), str | int)]
    found.named += [value[name] for name in _NAMED if isinstance(value.get(name), str)]
    found.generation = found.generation or str(value.get("failed_generation") or "")
    for name in _WAITS:
        if isinstance(value.get(name), str | int | float):
            found.wait = f"{value[name]}ms" if name.endswith("_ms") else str(value[name])
    metadata = value.get("metadata")
    if isinstance(metadata, Mapping) and (
        quoted := list(_texts(metadata.get("raw"), found, depth + 1))
    ):
        yield f"{metadata.get('provider_name') or 'the provider'}: {': '.join(quoted)}"
        return
    place = value.get("loc")
    if isinstance(place, list) and isinstance(value.get("msg"), str):
        inside = place[1:] if place[:1] == ["body"] else place
        yield f"{'.'.join(map(str, inside))}: {value['msg']}".removeprefix(": ")
        return
    for name in _MESSAGES:
        if name in value:
            yield from _texts(value[name], found, depth + 1)


def _quoted(text: str) -> tuple[str, object]:
    """Return the JSON that `text` is or that it quotes, and the text before it; None for no JSON.
    LiteLLM's proxy quotes a provider's body in its own words."""
    quoted = _JSON.search(text)
    if not quoted:
        return text, None
    before = text[: quoted.end()].lstrip()
    try:
        value, end = _DECODER.raw_decode(text, quoted.end())
    except (ValueError, RecursionError):
        return text, None
    return (before, value) if before or not text[end:].strip() else (text, None)


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


def stream_error(body: object) -> LLMError:
    """Return the error for an error frame in a stream, or an answer with status 200 that is one.
    Its codes may name a status."""
    codes = read_body(body).codes
    known = [_STATUS_BY_WORD[code] for code in codes if code in _STATUS_BY_WORD]
    known += [int(code) for code in codes if re.fullmatch(r"[45]\d\d", code)]
    return _classified(known[0] if known else 500, body, {}, "the server broke off")


def _classified(status: int, body: object, headers: Mapping[str, str], what: str) -> LLMError:
    found = read_body(body)
    message = found.message
    named = wait_of(found.wait) if found.wait else wait_in_words(message)
    kind = _kind(status, " ".join([message, *found.codes]), waits=named is not None)
    wait = retry_after(headers) if kind in RETRYABLE else None
    if kind is LLMErrorKind.RATE_LIMIT:
        waits = (wait, named, reset_in(headers))
        wait = next((each for each in waits if each is not None), None)
    if status in (400, 413) and found.is_empty:
        kind = LLMErrorKind.CONTEXT_OVERFLOW
        message = "no word of a reason; Cerebras, for one, says so that a conversation is too long"
    return LLMError(
        kind,
        f"{what}: {message or kind.replace('_', ' ')}",
        status=status,
        retry_after=wait,
        hint=_hint(kind, message),
        said=found.said,
        generation=found.generation,
    )


def _hint(kind: LLMErrorKind, message: str) -> str:
    if kind is LLMErrorKind.MODEL_NOT_FOUND and "model" not in message.lower():
        return "is the base URL that of the API, and the model's name right? agent models"
    if kind is LLMErrorKind.BAD_REQUEST:
        return next((hint for words, hint in _HINTS_BY_WORDS if words.search(message)), "")
    return _HINTS.get(kind, "")


def _kind(status: int, words: str, *, waits: bool) -> LLMErrorKind:
    """Classify by status, unless the provider's words say better what must happen next. `waits`:
    the server says how long to wait."""
    refused = status in (400, 402, 403, 413, 422, 429)
    limited = _RATE.search(words)
    if status in (413, 429) and _REQUEST_TOO_LARGE.search(words):
        return LLMErrorKind.CONTEXT_OVERFLOW
    if status in _OVERFLOW_STATUSES and _OVERFLOW.search(words) and not limited:
        return LLMErrorKind.CONTEXT_OVERFLOW
    if status == 429 and waits:
        return LLMErrorKind.RATE_LIMIT
    if (refused or status == 500) and _BILLING.search(words):
        return LLMErrorKind.BILLING
    if refused and _BILLING_TOPIC.search(words):
        return LLMErrorKind.BILLING
    if status in (400, 500) and _BAD_KEY.search(words):
        return LLMErrorKind.AUTH
    if status in (400, 403, 422) and _POLICY.search(words):
        return LLMErrorKind.CONTENT_POLICY
    if status in (400, 500) and limited:
        return LLMErrorKind.RATE_LIMIT
    if status in (400, 403, 422, 500) and _NO_MODEL.search(words):
        return LLMErrorKind.MODEL_NOT_FOUND
    if status in (404, 500) and _CANT.search(words):
        return LLMErrorKind.BAD_REQUEST
    fallback = LLMErrorKind.SERVER_ERROR if status >= 500 else LLMErrorKind.BAD_REQUEST
    return _BY_STATUS.get(status, fallback)
