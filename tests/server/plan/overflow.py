"""A prompt that does not fit, in each provider's words: some condensations, then the end."""

from __future__ import annotations

from ..script import Call, HttpError, Raw, Reply, Step, StreamError
from .fault import APIS, CHAT, MESSAGES, RESPONSES, SHORTENED, Completes, Fails, Fault, Scene

FAULTS: dict[str, Fault] = {}
_STEPS = [Reply("", [Call("glob", {"pattern": f"{number}*"})]) for number in range(4)]
"""Work to forget."""

_WORDS = {
    "OpenAI": ("context_length_exceeded", "This model's maximum context length is 128000 tokens."),
    "OpenAI Responses": (
        "context_length_exceeded",
        "Your input exceeds the context window of this model. Please adjust your input.",
    ),
    "Anthropic": ("invalid_request_error", "prompt is too long: 215000 tokens > 200000 maximum"),
    "Anthropic, with output": (
        "invalid_request_error",
        "input length and `max_tokens` exceed context limit: 190000 + 16384 > 200000",
    ),
    "Gemini": (
        "",
        "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).",
    ),
    "OpenRouter": (
        "",
        "This endpoint's maximum context length is 200000 tokens. However, you requested 215000.",
    ),
    "vLLM": ("", "The prompt (total length 5000) is too long to fit into the model."),
    "llama.cpp": (
        "exceed_context_size_error",
        "the request exceeds the available context size. try increasing the context size",
    ),
    "Ollama": ("", "the input length exceeds the context length"),
    "LM Studio": ("", "The number of tokens to keep is greater than the context length."),
    "Mistral": ("", "Prompt contains 40000 tokens, too large for model with 32768 maximum context"),
    "xAI": (
        "",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    ),
    "Groq": ("context_length_exceeded", "Please reduce the length of the messages or completion."),
    "Bedrock": ("", "Input is too long for requested model."),
    "Kimi": ("", "Your request exceeded model token limit: 262144"),
    "Copilot": ("", "prompt token count of 140000 exceeds the limit of 128000"),
    "DashScope": ("", "Range of input length should be [1, 129024]"),
}
# One more where the reply's own limit is lowered first.
_OVER = Fails("context_overflow", requests=len(_STEPS) + SHORTENED + 1)
_FITS = Completes(len(_STEPS) + 2)


def _add(name: str, step: Step, apis: tuple[str, ...] = APIS, *, streamed: bool = False) -> None:
    def script(scene: Scene) -> list[Step]:
        return [*_STEPS, step]

    ways = (True,) if streamed else (True, False)
    FAULTS[f"too long for {name}, once"] = Fault(script, _FITS, apis, ways)
    FAULTS[f"too long for {name}, always"] = Fault(script, _OVER, apis, ways)


for _name, (_kind, _message) in _WORDS.items():
    _api = MESSAGES if _name.startswith("Anthropic") else CHAT
    _api = RESPONSES if _name == "OpenAI Responses" else _api
    _add(_name, HttpError(400, _kind, _message), (_api,))
_add("a 500", HttpError(500, "", _WORDS["OpenAI"][1]), (CHAT,))
_add("a 413", HttpError(413, "", _WORDS["Anthropic"][1]), (MESSAGES,))
_add("a bare text", Raw(b'{"error":"input is too long"}', "application/json", 400), (CHAT,))
_add("a frame", StreamError(Reply("half"), 2, *_WORDS["OpenAI"]), (CHAT, RESPONSES), streamed=True)
_add("an Anthropic frame", StreamError(Reply("half"), 2, *_WORDS["Anthropic"]), (MESSAGES,),
     streamed=True)  # fmt: skip
FAULTS["too long from the start"] = Fault(
    lambda scene: [HttpError(400, *_WORDS["OpenAI"])],
    Fails("context_overflow", requests=SHORTENED),
    (CHAT,),
)
