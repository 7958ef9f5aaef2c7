"""The meaning of HTTP statuses and error bodies, for every provider that speaks HTTP."""

from __future__ import annotations

import re
from collections.abc import Mapping

from agentcli.errors import RETRYABLE, LLMError, LLMErrorKind
from agentcli.llm.error_bodies import read_body
from agentcli.llm.waits import reset_in, retry_after, wait_in_words, wait_of

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
