"""What servers answer besides the plain form: replies in other forms, and errors of every kind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from agentcli.errors import LLMError, LLMErrorKind
from agentcli.llm.answers import COMMENT, refused_reply, taken_apart
from agentcli.llm.failures import classify, stream_error, wait_of
from agentcli.llm.protocols.chat_completions import ChatCompletions
from agentcli.llm.protocols.responses import Responses
from agentcli.llm.provider import PROTOCOLS
from agentcli.llm.wire_protocol import Endpoint, StillAlive
from agentcli.messages import FinishReason, Message, Request
from agentcli.messages import Reply as Whole
from tests.conftest import MODELS
from tests.server import Altered, Raw, Reply

KEY = "sk-test-0123456789abcdef"
CHUNK = {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}
WHOLE = {"choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]}
STREAM = f"data: {json.dumps(CHUNK)}\n\ndata: [DONE]\n\n"


def _taken(text: str, kind: str = "") -> tuple[bool, list[object]]:
    streamed, objects = taken_apart([text.encode()], kind)
    return streamed, list(objects)


@pytest.mark.parametrize("kind", ["", "text/plain; charset=utf-8", "application/json"])
@pytest.mark.parametrize("start", ["", "\n\n", "\ufeff", "event: message\n", "id: 1\n"])
def test_a_stream_is_read_whatever_its_label_says(kind, start):
    assert _taken(start + STREAM, kind) == (True, [CHUNK, {}])


EVENT = json.dumps(CHUNK)
ALIVE = COMMENT
ODD_STREAMS = {
    "one line end between events": (f"data: {EVENT}\ndata: {EVENT}\n", [CHUNK, CHUNK]),
    "a label twice": (f"data: data: {EVENT}\n\n", [CHUNK]),
    "nothing as a sign of life": (
        f"data: null\n\ndata: {{}}\n\ndata: {EVENT}",
        [ALIVE, ALIVE, CHUNK],
    ),
    "words as a sign of life": (f"event: ping\ndata: ping\n\ndata: {EVENT}", [ALIVE, CHUNK]),
    "the end in other letters": (f'data: {EVENT}\n\ndata: "[done]"\n\n', [CHUNK, {}]),
    "lines of JSON": (f"{EVENT}\n{EVENT}\n\n", [CHUNK, CHUNK]),
    "the type only as the event's": (
        'event: message_stop\ndata: {"x": 1}\n\n',
        [{"type": "message_stop", "x": 1}],
    ),
}


@pytest.mark.parametrize(("text", "events"), ODD_STREAMS.values(), ids=ODD_STREAMS)
def test_a_stream_is_read_in_the_forms_that_gateways_give_it(text, events):
    assert _taken(text) == (True, events)


def _chat(*choices: dict[str, object]) -> Whole:
    protocol = ChatCompletions(Endpoint("lab", "m", "http://127.0.0.1:9/v1", None))
    *_, reply = (
        each for each in protocol._read(iter([{"choices": [c]} for c in choices] + [{}]))
        if isinstance(each, Whole)
    )  # fmt: skip
    return reply


LS = {"id": "a", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
PART = {"type": "text", "text": "Hi"}


@pytest.mark.parametrize(
    "choices",
    [
        [{"delta": {"content": "Hi"}}, {"index": "0", "delta": {}, "finish_reason": "stop"}],
        [{"delta": {"content": [{"text": "Hi"}]}, "finish_reason": "stop"}],
        [{"delta": {"content": PART}, "finish_reason": "stop"}],
        [{"message": {"content": "Hi"}, "finish_reason": "stop"}],
        [{"delta": {"content": "Hi"}}, {"message": {"content": "Hi"}, "finish_reason": "stop"}],
    ],
)
def test_text_is_read_in_whatever_form_a_chunk_has_it(choices):
    assert _chat(*choices).text == "Hi"


@pytest.mark.parametrize(
    ("choice", "finish"),
    [
        ({"delta": {"tool_calls": LS}, "finish_reason": "STOP"}, FinishReason.STOP),
        ({"message": {"tool_calls": [LS]}, "finish_reason": "tool_use"}, FinishReason.TOOL_CALLS),
        ({"delta": {"tool_calls": [LS]}, "finish_reason": "MAX_TOKENS"}, FinishReason.LENGTH),
    ],
)
def test_calls_and_ends_are_read_in_the_forms_of_gateways(choice, finish):
    reply = _chat(choice)
    assert [call.name for call in reply.tool_calls] == ["bash"]
    assert reply.finish_reason is finish


def test_a_connection_that_breaks_after_the_end_of_a_reply_costs_nothing():
    def broken(*choices: dict[str, object]) -> Iterator[dict[str, object]]:
        yield from ({"choices": [choice]} for choice in choices)
        raise OSError("peer closed connection")

    protocol = ChatCompletions(Endpoint("lab", "m", "http://127.0.0.1:9/v1", None))
    begun, ended = {"delta": {"content": "Hi"}}, {"delta": {}, "finish_reason": "stop"}
    *_, reply = protocol._read(broken(begun, ended))
    assert isinstance(reply, Whole)
    assert reply.text == "Hi"
    with pytest.raises(OSError, match="peer closed"):
        list(protocol._read(broken(begun)))


ITEM = {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "bash"}
ADDED, DONE = "response.output_item.added", "response.output_item.done"
END = {"type": "response.completed", "response": {"output": None}}


@pytest.mark.parametrize(
    "events",
    [
        [{"type": ADDED, "output_index": 0, "item": ITEM},
         {"type": "response.function_call_arguments.done", "output_index": 0, "arguments": "{}"},
         END],
        [{"type": DONE, "output_index": 0, "item": {**ITEM, "arguments": "{}"}}, {}],
        [{"type": DONE, "output_index": 0, "item": {**ITEM, "id": "fc_0", "name": "ls"}},
         {"type": ADDED, "output_index": 0, "item": ITEM},
         {"type": DONE, "output_index": 0, "item": {**ITEM, "call_id": "b", "arguments": "{}"}},
         END],
    ],
)  # fmt: skip
def test_items_are_read_in_the_forms_of_gateways(events):
    protocol = Responses(Endpoint("lab", "m", "http://127.0.0.1:9/v1", None))
    *_, reply = (each for each in protocol._read(iter(events)) if isinstance(each, Whole))
    assert (reply.tool_calls[-1].name, reply.tool_calls[-1].arguments) == ("bash", "{}")
    assert len(reply.tool_calls) == sum(e.get("type") == DONE for e in events) or len(events) == 3


@pytest.mark.parametrize("kind", ["", "text/event-stream", "application/json"])
def test_a_whole_reply_is_read_whatever_was_asked_for(kind):
    assert _taken(json.dumps(WHOLE, indent=1), kind) == (False, [WHOLE])


@pytest.mark.parametrize(
    ("text", "kind", "told"),
    [
        ("<html>Sign in</html>", "text/html", "answered with text/html"),
        ("upstream is down", "text/plain", "answered with text/plain: upstream is down"),
        ("", "", "answered with nothing"),
        ("[]", "application/json", "not a reply"),
    ],
)
def test_what_is_no_reply_is_shown(text, kind, told):
    with pytest.raises(LLMError, match=told) as caught:
        _taken(text, kind)
    assert caught.value.kind is LLMErrorKind.BAD_RESPONSE


ERRORS = {
    "of OpenAI": {"error": {"message": "it broke", "type": "server_error", "code": None}},
    "of Anthropic": {"type": "error", "error": {"type": "api_error", "message": "it broke"}},
    "of vLLM": {"object": "error", "message": "it broke", "code": 500},
    "of Responses": {"type": "error", "code": "server_error", "message": "it broke"},
    "of a gateway": {"code": 1, "msg": "it broke", "success": False},
    "of MiniMax": {"choices": None, "base_resp": {"status_code": 1, "status_msg": "it broke"}},
    "a detail": {"detail": "it broke"},
    "a text": {"error": "it broke"},
    "another member": {"error_code": 17, "error_msg": "it broke"},
    "within a choice": {"choices": [{"error": {"code": 502, "message": "it broke"}}]},
    "text within text": {"error": {"message": json.dumps({"error": {"message": "it broke"}})}},
    "a title": {"title": "Bad Gateway", "detail": "it broke"},
}


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
def test_an_error_is_shown_in_whatever_form_it_comes(error):
    events = [f"data: {json.dumps(CHUNK)}\n\ndata: {json.dumps(error)}\n\n"]
    bodies = [] if error.get("choices") else [json.dumps(error), json.dumps([error])]
    for text in events + bodies:
        with pytest.raises(LLMError, match="it broke"):
            _taken(text)
    assert "it broke" in classify(500, json.dumps(error), {}, "http://model").message or not bodies


@pytest.mark.parametrize(
    "line",
    ["data: it broke", "error: it broke", 'event: error\ndata: {"x": {}, "msg": "it broke"}'],
)
def test_an_error_in_a_stream_may_be_plain_text(line):
    with pytest.raises(LLMError, match="it broke"):
        _taken(f": comment\n\n{line}\n\n")


def test_the_provider_that_a_gateway_asked_is_quoted():
    quoted = {"error": {"message": "tools.3: bad schema", "type": "invalid_request_error"}}
    metadata = {"raw": json.dumps(quoted), "provider_name": "Anthropic"}
    body = {"error": {"message": "Provider returned error", "code": 400, "metadata": metadata}}
    error = classify(400, json.dumps(body), {}, "http://model")
    assert error.message == "http://model answers 400: Anthropic: tools.3: bad schema"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            'OpenAIException - {"error": {"message": "it broke"}} No fallback.',
            "OpenAIException - it broke",
        ),
        ('  {"error": "it broke"}', "it broke"),
        ('{"unheard": "of"}', '{"unheard": "of"}'),
        ('"auto" is refused', '"auto" is refused'),
        ("[1] is refused", "[1] is refused"),
        ("{broken", "{broken"),
    ],
)
def test_a_message_may_quote_another(said, shown):
    for body in (said, json.dumps({"error": {"message": said}})):
        assert (
            classify(500, body, {}, "http://model").message == f"http://model answers 500: {shown}"
        )


def test_a_parameter_that_fastapi_refuses_is_named():
    faults = [{"loc": ["body", "store"], "msg": "Extra inputs are not permitted", "input": False}]
    error = classify(422, json.dumps({"detail": faults}), {}, "http://model")
    assert error.message.endswith("store: Extra inputs are not permitted")


def _of(status: int, words: str, **more: object) -> LLMError:
    body = json.dumps({"error": {"message": words, **more}})
    return classify(status, body, {}, "http://model")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "prompt is too long: 210000 tokens > 200000 maximum"),
        (400, "Your input exceeds the context window of this model."),
        (400, "The input token count (9) exceeds the maximum number of tokens allowed (8)."),
        (400, "Prompt exceeds max length"),
        (400, "invalid params, context window exceeds limit"),
        (400, "Your request exceeded model token limit: 8192"),
        (400, "Range of input length should be [1, 30720]"),
        (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096."),
        (400, "The input (9 tokens) is longer than the model's context length (8 tokens)."),
        (400, "This model's maximum prompt length is 8 but the request contains 9 tokens"),
        (400, "Please reduce the length of the messages or completion."),
        (400, "ValidationException: Input is too long for requested model."),
        (400, "The number of tokens to keep from the initial prompt is greater than the context "
         "length"),
        (400, "Requested token count exceeds the model's maximum context length of 8 tokens."),
        (400, "Prompt contains 9 tokens and 0 draft tokens, too large for model with 8 maximum "
         "context length"),
        (500, "the request exceeds the available context size, try increasing it"),
        (400, "prompt too long; exceeded max context length by 9 tokens"),
        (429, "Request too large for gpt-x on tokens per minute (TPM): Limit 8, Requested 9"),
        (429, "Extra usage is required for long context requests."),
        (400, "Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)"),
        (400, "number of input tokens (167594) has exceeded max_prompt_tokens (163840) limit."),
        (400, "Input Tokens Exceeded: Number of input tokens exceeds maximum length."),
        (400, "Input token length too long"),
        (400, "Total tokens of image and text exceed max message tokens."),
        (400, "Input length 137000 exceeds the maximum length 131072."),
        (400, "length of prompt_tokens (33000) must be less than max_seq_len (32768)."),
        (400, "The provided prompt is 5000 tokens long, so generating 4096 tokens is not possible"),
        (400, "the number of input tokens 5000 cannot exceed the total tokens limit 4096"),
        (400, "Prompt length 9000 is greater than max_seq_len 8192"),
        (400, "Number of prompt tokens: 9000 exceeds model max length: 8192"),
        (400, "the total message token length exceed model limit"),
        (400, "This model's max tokens is 16384, but the input has 20000 tokens"),
        (400, "Invalid 'messages[5].content': string too long."),
        (400, "输入内容过长"),
        (400, "token数量超过上限"),
    ],
)  # fmt: skip
def test_a_prompt_that_is_too_long_is_known_in_the_words_of_every_provider(status, words):
    assert _of(status, words).kind is LLMErrorKind.CONTEXT_OVERFLOW


@pytest.mark.parametrize(
    "words",
    [
        "messages.1.content.0.image.source.base64: image exceeds 5 MB maximum: 6 MB > 5 MB",
        "Invalid 'input[3].call_id': string too long. Expected a string with maximum length 64",
        "Invalid 'tools[3].function.description': string too long.",
        "max_tokens is too large: 64000. This model supports at most 4096 completion tokens",
        "stop: too many stop sequences",
        "the input contains more than one system message",
    ],
)
def test_something_else_that_is_too_long_is_no_long_prompt(words):
    assert _of(400, words).kind is LLMErrorKind.BAD_REQUEST


def test_a_refusal_without_a_word_may_be_a_prompt_that_is_too_long():
    assert classify(400, "", {}, "http://model").kind is LLMErrorKind.CONTEXT_OVERFLOW


@pytest.mark.parametrize(
    ("status", "words", "kind"),
    [
        (400, "ThrottlingException: Too many tokens, please wait before trying again.",
         LLMErrorKind.RATE_LIMIT),
        (429, "Rate limit reached on tokens per day (TPD): Limit 8, Used 7, Requested 2.",
         LLMErrorKind.RATE_LIMIT),
        (429, "You exceeded your current quota. Please retry in 36.5s.", LLMErrorKind.RATE_LIMIT),
        (429, "You exceeded your current quota, please check your plan.", LLMErrorKind.BILLING),
        (429, "Insufficient balance or no resource package. Please recharge.",
         LLMErrorKind.BILLING),
        (400, "Access denied. Arrearage: the account is not in good standing.",
         LLMErrorKind.BILLING),
        (400, "Invalid model name passed in model=x. Call `/v1/models` to view available models",
         LLMErrorKind.MODEL_NOT_FOUND),
        (400, "Model Not Exist", LLMErrorKind.MODEL_NOT_FOUND),
        (400, "x is not a valid model ID", LLMErrorKind.MODEL_NOT_FOUND),
        (400, "The model `x` has been decommissioned and is no longer supported.",
         LLMErrorKind.MODEL_NOT_FOUND),
        (400, "API key not valid. Please pass a valid API key.", LLMErrorKind.AUTH),
        (404, "No endpoints found that support image input", LLMErrorKind.BAD_REQUEST),
        (500, "tools param requires --jinja flag", LLMErrorKind.BAD_REQUEST),
    ],
)  # fmt: skip
def test_words_say_more_than_a_status(status, words, kind):
    assert _of(status, words).kind is kind


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("tools param requires --jinja flag", "--jinja"),
        ("registry.ollama.ai/library/x does not support tools", "tool_format"),
        ('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser',
         "tool_format"),
    ],
)  # fmt: skip
def test_a_server_without_tools_comes_with_the_way_out(words, hint):
    assert hint in _of(400, words).hint


def test_an_error_with_status_200_is_known_by_its_words():
    assert stream_error({"code": 1, "msg": "balance is not enough"}).kind is LLMErrorKind.BILLING
    assert stream_error({"code": "400", "msg": "bad"}).kind is LLMErrorKind.BAD_REQUEST


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("0.5s", 0.5),
        ("1m2.5s", 62.5),
        ("2h30m", 9000.0),
        ("500ms", 0.5),
        ("7", 7.0),
        ("-1", None),
        ("soon", None),
        ("1e999", None),
        ("1000000000", 0.0),
        ("Fri, 27 Nov 2020 00:00:00 GMT", 0.0),
        ("2020-11-27T00:00:00Z", 0.0),
    ],
)
def test_a_wait_is_read_in_every_form(said, seconds):
    assert wait_of(said) == seconds


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("Please try again in 1m2.5s. Visit the console", 62.5),
        ("Please retry in 36.5s.", 36.5),
        ("Please retry after 26 seconds.", 26.0),
        ("Please wait 30 seconds before the next request", 30.0),
        ("Your quota will reset after 2 hours and 5 minutes", 7500.0),
        ("Limit 6000, used 5990", None),
    ],
)
def test_a_wait_named_in_words_is_kept(words, seconds):
    assert _of(429, f"Rate limit reached. {words}").retry_after == seconds


def test_a_wait_may_be_a_detail_of_the_error():
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "36s"}]
    assert _of(429, "Quota exceeded", details=details).retry_after == 36


def test_the_limit_that_is_used_up_says_when_it_starts_anew():
    soon = datetime.now(UTC) + timedelta(minutes=5)
    headers = {
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "1m0s",
        "x-ratelimit-remaining-tokens": "99",
        "x-ratelimit-reset-tokens": "59m0s",
    }
    limited = '{"error": "Too many requests"}'
    assert classify(429, limited, headers, "http://model").retry_after == 60
    for at in (str(int(soon.timestamp() * 1000)), soon.isoformat()):
        wait = classify(429, limited, {"x-ratelimit-reset": at}, "http://model").retry_after
        assert wait is not None
        assert 290 < wait <= 300
    never = {"x-ratelimit-reset": "9999999999999"}
    assert classify(429, limited, never, "http://model").retry_after is None


@pytest.mark.parametrize(
    ("generation", "calls"),
    [
        ('{"name": "bash", "arguments": {"command": "ls"}}', [("bash", '{"command": "ls"}')]),
        ('[{"name": "a", "parameters": {}}, {"name": "b"}]', [("a", "{}"), ("b", "{}")]),
        ('<function=bash>{"command": "ls"}</function>', [("bash", '{"command": "ls"}')]),
        ('<function=bash{"command": "ls"}', [("bash", '{"command": "ls"}')]),
        (
            '{"name": "bash", "arguments": {"comm',
            [("bash", '{"name": "bash", "arguments": {"comm')],
        ),
        ("I need no tool for that.", []),
    ],
)
def test_a_reply_whose_calls_the_server_could_not_read_is_taken(generation, calls):
    reply = refused_reply(generation, "m")
    assert [(call.name, call.arguments) for call in reply.tool_calls] == calls
    assert reply.text == ("" if calls else generation)


WHOLE_BY_API = {
    "chat_completions": WHOLE,
    "responses": {
        "status": "completed",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}],
    },
    "anthropic_messages": {
        "type": "message",
        "content": [{"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn",
    },
}


@pytest.mark.parametrize("api", MODELS)
def test_a_run_takes_a_whole_reply_in_place_of_a_stream(agent, serve, api):
    server = serve([Raw(json.dumps(WHOLE_BY_API[api]).encode(), "application/json")])
    done = agent.use(server, MODELS[api])("run", "x")
    assert (done.returncode, done.stdout) == (0, "Hi\n"), done.stderr
    assert server.requests[0].body["stream"]


def test_a_run_takes_a_stream_in_place_of_a_whole_reply(agent, serve):
    server = serve([Raw(STREAM.encode(), "text/plain", headers={"content-encoding": "none"})])
    done = agent.use(server)("run", "x", "--set", "providers.openai-chat.stream=false")
    assert (done.returncode, done.stdout) == (0, "Hi\n"), done.stderr


@pytest.mark.parametrize("api", MODELS)
def test_a_comment_in_a_stream_is_a_sign_of_life(serve, api):
    server = serve([Altered(Reply("Hi"), lambda chunks: [b": working\n\n", *chunks])])
    provider, _, model = MODELS[api].partition("/")
    version = "" if api == "anthropic_messages" else "/v1"
    speaker = PROTOCOLS.get(api)
    assert speaker is not None
    protocol = speaker(Endpoint(provider, model, server.url + version, KEY))
    protocol.connect()
    items = list(protocol.answer(Request((Message.user_message("x"),))))
    protocol.abort()
    assert items[0] == StillAlive(idle=True)
    assert any(isinstance(item, Whole) for item in items)


def test_a_model_is_told_what_was_wrong_with_a_call_that_the_server_refused(agent, serve):
    generation = '{"name": "write", "arguments": {"path": 7}}'
    refusal = {
        "message": "Failed to call a function. See 'failed_generation' for more details.",
        "code": "tool_use_failed",
        "failed_generation": generation,
    }
    thought = {"choices": [{"index": 0, "delta": {"reasoning": "First I write."}}]}
    stream = (
        f"data: {json.dumps(thought)}\n\nevent: error\ndata: {json.dumps({'error': refusal})}\n\n"
    )
    refused = json.dumps({"error": refusal}).encode()
    server = serve(
        [
            Raw(refused, "application/json", 400),
            Raw(stream.encode(), "text/event-stream"),
            Reply("Done."),
        ],
        provider="groq",
    )
    agent.env |= {"GROQ_API_KEY": KEY, "GROQ_BASE_URL": f"{server.url}/v1"}
    done = agent("run", "-m", "groq/any", "x")
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    *_, first, told, second, told_again = server.requests[2].body["messages"]
    assert first["tool_calls"][0]["function"]["name"] == "write"
    assert "content" in told["content"]
    assert second["tool_calls"][0]["function"]["name"] == "write"
    assert second["reasoning"] == "First I write.", "what came before the refusal stays"
    assert "content" in told_again["content"]
