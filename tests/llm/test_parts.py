"""The parts below a protocol: what answers mean and how they are cut, what replies cost, SDKs."""

from __future__ import annotations

import json
import logging
import queue
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import islice
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.errors import ConfigError, LLMError, LLMErrorKind
from agentcli.events.progress import TextDelta
from agentcli.llm import answers, client
from agentcli.llm.answers import COMMENT, OpenCalls, checked_answer, sent_events, text_lines
from agentcli.llm.catalog import Catalog
from agentcli.llm.client import backoff
from agentcli.llm.failures import classify, retry_after, stream_error
from agentcli.llm.protocols.anthropic_messages import AnthropicMessages
from agentcli.llm.protocols.chat_completions import ChatCompletions
from agentcli.llm.protocols.responses import Responses
from agentcli.llm.wire_protocol import (
    Endpoint,
    StillAlive,
    text_of,
    token_count,
    tool_call,
    unique_calls,
    wire_arguments,
    wire_name,
)
from agentcli.messages import FinishReason, Reply, ToolCall, Usage
from agentcli.settings import LLMSettings, PriceSettings


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, {"error": {"message": "bad key"}}, LLMErrorKind.AUTH),
        (403, {}, LLMErrorKind.AUTH_PERMANENT),
        (429, {"error": {"message": "slow down"}}, LLMErrorKind.RATE_LIMIT),
        (429, {"error": {"code": "insufficient_quota"}}, LLMErrorKind.BILLING),
        (400, {"error": {"message": "Your credit balance is too low"}}, LLMErrorKind.BILLING),
        (400, {"error": {"code": "context_length_exceeded"}}, LLMErrorKind.CONTEXT_OVERFLOW),
        (400, {"error": {"message": "prompt is too long: 9 > 8"}}, LLMErrorKind.CONTEXT_OVERFLOW),
        (400, {"error": {"message": "messages: bad role"}}, LLMErrorKind.BAD_REQUEST),
        (404, {"error": {"message": "model x not found"}}, LLMErrorKind.MODEL_NOT_FOUND),
        (413, {}, LLMErrorKind.PAYLOAD_TOO_LARGE),
        (500, "<html>oops</html>", LLMErrorKind.SERVER_ERROR),
        (529, {}, LLMErrorKind.OVERLOADED),
        (307, {}, LLMErrorKind.BAD_REQUEST),
    ],
)
def test_an_answer_is_classified_by_what_must_happen_next(status, body, kind):
    error = classify(status, body, {}, "http://model")
    assert error.kind is kind
    assert "http://model" in error.message
    assert "<html>" not in error.message


def nested(depth):
    return "found" if not depth else [nested(depth - 1)]


@pytest.mark.parametrize(
    ("body", "shown", "hidden"),
    [
        ({"errors": ["e1", "e2", "e3", "e4", "e5", "e6"]}, "e5", "e6"),
        ({"error": {"message": "a" * 249 + " " + "b" * 250}}, " " + "b" * 250, "…"),
        ({"error": {"message": "a" * 249 + " " + "b" * 251}}, "a" * 249 + " …", "b"),
        (nested(8), "found", "…"),
        ({"errors": ["shown", *nested(7)]}, "shown: found", "…"),
        ({"errors": ["shown", *nested(8)]}, "shown", "found"),
    ],
)
def test_how_much_is_read_of_an_answer_and_shown_of_its_message(body, shown, hidden):
    message = classify(422, body, {}, "http://model").message
    assert shown in message
    assert hidden not in message


def test_a_server_may_say_how_long_to_wait():
    assert retry_after({"retry-after": "7"}) == 7
    assert retry_after({"retry-after-ms": "1500", "retry-after": "9"}) == 1.5
    later = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    assert 3500 < retry_after({"retry-after": later}) <= 3600
    assert retry_after({"retry-after": "soon"}) is None
    assert retry_after({}) is None


def test_waits_double_up_to_a_longest():
    settings = LLMSettings(retry_base_s=2, retry_longest_s=64)
    for attempt, longest in enumerate([2, 4, 8, 16, 32, 64, 64], 1):
        assert longest / 2 <= backoff(settings, attempt) <= longest


class Clock:
    """A clock that also is the queue of what a model sends: items, and seconds of silence."""

    def __init__(self, arriving):
        self.now = 0.0
        self.arriving = list(arriving)

    def monotonic(self):
        return self.now

    def get(self, timeout):
        item = self.arriving.pop(0)
        if isinstance(item, str):
            return item
        self.now += item
        raise queue.Empty


@pytest.mark.parametrize(
    ("arriving", "received", "limit"),
    [
        ([299, 2], [], 300),
        ([299, "a", 89, "b", 89, 2], ["a", "b"], 90),
        (["a", 91], ["a"], 90),
    ],
)
def test_silence_is_allowed_for_longer_before_a_reply_than_within_one(
    arriving, received, limit, monkeypatch
):
    clock = Clock(arriving)
    monkeypatch.setattr(client, "time", clock)
    settings = LLMSettings(first_byte_s=300, gap_s=90)
    model = client.ModelClient(cast(Any, None), "m", settings, Catalog({}))
    arrived = model._receive(cast(Any, clock), lambda progress: None)
    assert list(islice(arrived, len(received))) == received
    with pytest.raises(LLMError, match=f"nothing for {limit} s"):
        next(arrived)
    assert clock.arriving == []


def test_prices_come_from_the_catalogue_or_from_the_user_and_are_never_made_up():
    usage = Usage(prompt_tokens=1_000_000, completion_tokens=0, cache_read_tokens=500_000)
    own = Catalog({"lab/big": PriceSettings(input=2, output=4, cache_read=0)})
    assert own.cost("lab/big", usage) == 1.0
    assert own.cost("openai/gpt-5", usage) > 0
    assert own.cost("openai/no-such-model", usage) is None
    assert own.cost("ollama/qwen", usage) is None


def test_windows_are_known_or_cautious():
    catalog = Catalog({})
    assert catalog.context_tokens("anthropic/claude-sonnet-4-5") == 200_000
    assert catalog.context_tokens("openai/no-such-model") == 128_000
    assert catalog.context_tokens("ollama/qwen") == 32_768


def test_whatever_a_model_made_up_goes_back_in_a_form_that_is_taken():
    assert wire_name("fly me to the möön") == "fly_me_to_the_m__n"
    assert wire_name("") == "unnamed"
    assert len(wire_name("x" * 200)) == 64
    assert wire_arguments('{"a": 1}') == {"a": 1}
    assert wire_arguments("{broken") == {"invalid_arguments": "{broken"}
    assert wire_arguments("[1]") == {"invalid_arguments": "[1]"}


def test_server_sent_events_are_joined_and_the_end_is_marked():
    lines = ["event: x", 'data: {"a":', "data: 1}", "", ": comment", "data:[DONE]", ""]
    assert list(sent_events(lines)) == [{"a": 1}, COMMENT, {}]
    # The last event may lack its line end.
    assert list(sent_events(['data: {"a": 1}', "", "data:", "", "data: [DONE]"])) == [{"a": 1}, {}]


@pytest.mark.parametrize(
    ("package", "client", "heavy"),
    [
        ("openai", "OpenAI", "openai.types.beta"),
        ("anthropic", "Anthropic", "anthropic.resources.beta"),
    ],
)
def test_an_sdk_is_loaded_in_part_and_whole_when_asked(package, client, heavy):
    program = f"""
import sys
from agentcli.llm.connections import make_lazy
make_lazy({package!r})
import {package}
{package}.{client}(api_key="x")
assert not any(name.startswith({heavy!r} + ".") for name in sys.modules), "too much"
part = len(sys.modules)
assert isinstance({package}.__version__, str)
assert {package}.APIStatusError.__mro__[1].__name__ == "APIError"
whole = dir({package})
{package}.NOT_A_NAME if hasattr({package}, "NOT_A_NAME") else None
assert len(sys.modules) > part, "an unknown name runs the whole package"
assert "{client}" in vars({package})
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


HERE = Endpoint("lab", "m", "http://127.0.0.1:9", None)


@st.composite
def cut_in_pieces(draw):
    """Lines, and their bytes with some line end, in pieces that respect nothing."""
    # Neither a line end nor a byte order mark can be in a line.
    characters = st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\ufeff")
    lines = draw(st.lists(st.text(characters, max_size=6), max_size=6))
    end = draw(st.sampled_from(["\n", "\r", "\r\n"]))
    mark = draw(st.sampled_from(["", "\ufeff"]))
    data = (mark + "".join(f"{line}{end}" for line in lines)).encode()
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    return lines, [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@given(cut_in_pieces())
def test_lines_are_the_same_however_they_are_cut(case):
    lines, pieces = case
    assert list(text_lines(pieces)) == [*lines, ""]


def test_bytes_that_are_no_text_are_refused():
    for pieces in ([b"a\xff\n"], [b"caf\xc3"]):
        with pytest.raises(UnicodeDecodeError):
            list(text_lines(pieces))


def test_calls_with_one_id_are_two_in_a_whole_message_unless_they_are_the_same():
    open_calls = OpenCalls()
    pieces = [
        {"id": "i", "function": {"name": name, "arguments": arguments}}
        for name, arguments in [("write", "{}"), ("glob", '{"a": 1}'), ("glob", '{"a": 2}')]
    ]
    open_calls.take(pieces)
    found = [(call.name, call.arguments) for call in open_calls.finished()]
    assert found == [("write", "{}"), ("glob", '{"a": 1}'), ("glob", '{"a": 2}')]


@pytest.mark.parametrize(
    ("sent", "taken"),
    [
        ('{"a": 1}', '{"a": 1}'),
        (json.dumps('{"a": 1}'), '{"a": 1}'),
        ({"a": 1}, '{"a": 1}'),
        (None, ""),
        ([1], "[1]"),
        ('"text"', '"text"'),
        ('"[1]"', '"[1]"'),
        ('"{broken', '"{broken'),
    ],
)
def test_arguments_are_mended_where_it_is_plain_what_they_were(sent, taken):
    assert tool_call("i", "x", sent) == ToolCall("i", "x", taken)


@given(st.lists(st.text(max_size=70), max_size=5))
def test_ids_of_calls_are_short_and_differ(ids):
    calls = unique_calls([ToolCall(call_id, "x", "") for call_id in ids], "call_")
    assert len({call.id for call in calls}) == len(ids)
    assert all(0 < len(call.id) <= 64 for call in calls)


def test_a_number_that_json_does_not_have_goes_back_quoted():
    assert wire_arguments('{"a": NaN}') == {"invalid_arguments": '{"a": NaN}'}


@given(st.recursive(st.none() | st.integers() | st.floats() | st.text(), st.lists))
def test_a_count_is_a_count_whatever_was_sent(value):
    assert 0 <= token_count({"a": {"b": value}}, "a", "b") <= 1_000_000_000
    assert token_count(value, "a", "b") == 0


def test_text_is_text_or_the_texts_of_parts():
    assert text_of([{"type": "text", "text": "a"}, {"type": "thinking"}]) == "a"
    with pytest.raises(TypeError):
        text_of(7)


def test_signs_of_life_do_not_count_for_ever(monkeypatch):
    clock = iter(range(0, 10_000, 400))
    monkeypatch.setattr(answers.time, "monotonic", lambda: float(next(clock)))
    ping, piece = StillAlive(idle=True), StillAlive()
    reply = Reply("x", (), FinishReason.STOP, Usage(), "m", "r")
    items = [ping, ping, ping, piece, ping, TextDelta("x"), ping, ping, reply]
    assert list(checked_answer(items)) == [ping, piece, ping, TextDelta("x"), ping, reply]


def test_an_answer_without_a_reply_is_broken_off():
    with pytest.raises(LLMError, match="cut off"):
        list(checked_answer([TextDelta("x"), StillAlive()]))


@pytest.mark.parametrize("wire", [ChatCompletions, Responses, AnthropicMessages])
def test_a_failure_that_nobody_knows_is_told_and_logged(wire, caplog):
    with caplog.at_level(logging.WARNING):
        error = wire(HERE).translate(RuntimeError("a bug of ours"))
    assert error.kind is LLMErrorKind.UNKNOWN
    assert not error.retryable
    assert "a bug of ours" in error.message
    assert caplog.records[0].exc_info is not None
    with pytest.raises(ConfigError):
        wire(HERE).translate(ConfigError("for the person as it is"))


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"code": 502, "message": "x"}, LLMErrorKind.SERVER_ERROR),
        ({"code": "429"}, LLMErrorKind.RATE_LIMIT),
        ({"type": "overloaded_error"}, LLMErrorKind.OVERLOADED),
        ({"code": "context_length_exceeded"}, LLMErrorKind.CONTEXT_OVERFLOW),
        ("it broke", LLMErrorKind.SERVER_ERROR),
        (None, LLMErrorKind.SERVER_ERROR),
    ],
)
def test_an_error_frame_means_what_its_status_would(body, kind):
    assert stream_error(body).kind is kind


@given(st.recursive(st.none() | st.integers() | st.text(), lambda inner: (
    st.lists(inner) | st.dictionaries(st.sampled_from(["error", "message", "code", "type"]), inner)
)), st.integers(400, 599))  # fmt: skip
def test_any_body_of_any_status_is_told_in_one_line(body, status):
    error = classify(status, body, {}, "http://model")
    assert error.message.startswith(f"http://model answers {status}: ")
    assert "\n" not in error.message
    assert len(error.message) < 600


def test_a_limit_on_output_is_no_full_window():
    message = {"error": {"message": "max_tokens is too large: 16384."}}
    error = classify(400, message, {}, "http://model")
    assert (error.kind, "max_output_tokens" in error.hint) == (LLMErrorKind.BAD_REQUEST, True)
