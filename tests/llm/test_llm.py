"""What answers mean, what replies cost, and how an SDK is loaded without most of it."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from agentcli.errors import LLMErrorKind
from agentcli.llm.answers import COMMENT, sent_events
from agentcli.llm.catalog import Catalog
from agentcli.llm.classify import classify
from agentcli.llm.client import backoff
from agentcli.llm.waits import retry_after
from agentcli.llm.wire_protocol import unique_calls, wire_arguments, wire_name
from agentcli.messages import ToolCall, Usage
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
    calls = unique_calls(
        [ToolCall("a", "x", ""), ToolCall("a", "y", ""), ToolCall("", "z", "")], "c"
    )
    assert len({call.id for call in calls}) == 3
    assert all(call.id for call in calls)


def test_server_sent_events_are_joined_and_the_end_is_marked():
    lines = ["event: x", 'data: {"a":', "data: 1}", "", ": comment", "data:[DONE]", ""]
    assert list(sent_events(lines)) == [{"a": 1}, COMMENT, {}]


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
from agentcli.llm.lazy_sdk import make_lazy
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
