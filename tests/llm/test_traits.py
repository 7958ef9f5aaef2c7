"""What is known beforehand of a model at an endpoint, by the model's full name."""

import pytest

from agentcli.llm.provider import known_providers
from agentcli.llm.registry import Providers
from agentcli.llm.traits import LEVELS, Traits, nearest_level
from agentcli.settings import ProviderSettings

_SHOWN = {"type": "adaptive", "display": "summarized"}
_OFF = {"thinking": {"type": "disabled"}}


def _traits(name: str, **configured: ProviderSettings) -> Traits:
    environ = {p.key_env: "key" for p in known_providers().values() if p.key_env}
    return Providers(configured, environ).endpoint(name).traits


@pytest.mark.parametrize(
    ("name", "wanted", "members"),
    [
        ("anthropic/claude-sonnet-5-5", "none", {"output_config": {"effort": "low"}}),
        ("anthropic/claude-haiku-5-5", "none", _OFF),
        ("anthropic/claude-opus-5-20260901", "none", _OFF),
        ("anthropic/claude-opus-4-8", "xhigh", {"output_config": {"effort": "xhigh"}}),
        ("anthropic/claude-sonnet-4-6", "xhigh", {"output_config": {"effort": "high"}}),
        ("anthropic/claude-opus-4-5-20251101", "max", {"thinking": {"budget_tokens": 24_576}}),
        ("anthropic/claude-sonnet-4-20250514", "low", {"thinking": {"type": "enabled"}}),
        ("openai/gpt-6-astra", "none", {"reasoning": {"effort": "low"}}),
        ("openai/gpt-5.5", "max", {"reasoning": {"effort": "xhigh"}}),
        ("openai/gpt-5.5-pro", "none", {"reasoning": {"effort": "low"}}),
        ("openai/gpt-5", "minimal", {"reasoning": {"effort": "minimal"}}),
        ("openai/gpt-4.1", "high", {}),
        ("openai-chat/gpt-5.6-sol", "high", {}),
        ("gemini/gemini-2.5-flash", "none", {"reasoning_effort": "none"}),
        ("gemini/gemini-3.1-pro-preview", "minimal", {"reasoning_effort": "low"}),
        ("deepseek/deepseek-v4-pro", "medium", {"reasoning_effort": "high"}),
        ("deepseek/deepseek-v4-pro", "none", _OFF),
        ("moonshot/kimi-k2.6", "high", {"thinking": {"type": "enabled"}}),
        ("zai/glm-5.3", "none", {"reasoning_effort": "low"}),
        ("dashscope/qwen3.8-max", "none", {"enable_thinking": False}),
        ("xai/grok-4.5", "none", {"reasoning": {"effort": "low"}}),
        ("mistral/mistral-medium-latest", "low", {"reasoning_effort": "high"}),
        ("mistral/devstral-latest", "low", {}),
        ("openrouter/z-ai/glm-5.3", "max", {"reasoning": {"effort": "max"}}),
    ],
)
def test_effort_becomes_what_the_model_takes(name: str, wanted: str, members: dict) -> None:
    told = _traits(name).effort(wanted, {})
    assert {key: _part(told[key], value) for key, value in members.items()} == members
    assert bool(told) == bool(members)


def _part(value, like):
    return {key: value[key] for key in like} if isinstance(like, dict) else value


@pytest.mark.parametrize("name", known_providers())
def test_each_provider_takes_every_level_somehow(name: str) -> None:
    provider = known_providers()[name]
    for efforts in (
        provider.traits.efforts,
        *(row.get("efforts") for row in provider.models.values()),
    ):
        for wanted in LEVELS if efforts else ():
            assert nearest_level(wanted, efforts) in efforts


@pytest.mark.parametrize(
    ("name", "bound", "forced"),
    [
        ("anthropic/claude-opus-5-5", True, False),
        ("anthropic/claude-fable-5-1", True, False),
        ("anthropic/claude-fable-5", False, False),
        ("anthropic/claude-opus-5", False, True),
        ("anthropic/claude-opus-4-6", False, True),
        ("anthropic/claude-opus-7", True, False),
    ],
)
def test_thinking_of_new_claudes_is_bound(name: str, bound: bool, forced: bool) -> None:
    traits = _traits(name)
    assert (traits.is_bound, traits.forced_tools) == (bound, forced)


def test_thinking_is_asked_to_be_shown_where_it_is_hidden() -> None:
    assert _traits("anthropic/claude-sonnet-5-5").always == {"thinking": _SHOWN}
    assert _traits("anthropic/claude-opus-4-8").always == {}


def test_a_gateway_with_claude_is_known_by_the_model_and_a_server_by_its_host() -> None:
    gateway = ProviderSettings(api="anthropic_messages", base_url="https://gateway.example")
    claude = _traits("own/eu.anthropic.claude-opus-5-5-v1", own=gateway)
    assert claude.always == {"thinking": _SHOWN}
    assert claude.is_bound

    by_host = ProviderSettings(base_url="https://api.deepseek.com/v1")
    assert _traits("own/deepseek-v4-pro", own=by_host).filled == {"reasoning_content": ""}

    # What is known of the same host's other wire format says nothing of this one.
    other = ProviderSettings(
        api="anthropic_messages", base_url="https://api.deepseek.com/anthropic"
    )
    assert _traits("own/deepseek-v4-pro", own=other) == Traits()
