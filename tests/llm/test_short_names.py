"""Less than the full name of a model: which one it means, or which it may mean."""

from __future__ import annotations

import pytest

from agentcli.errors import ConfigError
from agentcli.llm.registry import Providers
from agentcli.llm.short_names import resolve

NAMES = [
    "anthropic/claude-haiku-4-5",
    "anthropic/claude-sonnet-4-5",
    "anthropic/claude-sonnet-5-5",
    "openai/gpt-5.5",
    "openai/gpt-5.5-mini",
    "openrouter/openai/gpt-5.5",
    "openrouter/qwen/qwen3-coder",
    "openrouter/qwen/qwen3-coder:free",
    "ollama/gemma3:12b",
]
DEFAULTS = ["anthropic/claude-sonnet-5-5", "openai/gpt-5.5"]


@pytest.mark.parametrize(
    ("wanted", "meant"),
    [
        ("gpt-5.5", "openai/gpt-5.5"),
        ("GPT-5.5", "openai/gpt-5.5"),
        ("gpt", "openai/gpt-5.5"),
        ("sonnet", "anthropic/claude-sonnet-5-5"),
        ("haiku", "anthropic/claude-haiku-4-5"),
        ("mini", "openai/gpt-5.5-mini"),
        ("qwen/qwen3-coder", "openrouter/qwen/qwen3-coder"),
        ("qwen3-coder", "openrouter/qwen/qwen3-coder"),
        ("qwen", "openrouter/qwen/qwen3-coder"),
        ("gemma", "ollama/gemma3:12b"),
        ("sonne", None),
        ("ini", None),
    ],
)
def test_a_short_name_means_the_one_model_that_fits(wanted, meant):
    assert resolve(wanted, NAMES, DEFAULTS) == meant


def test_several_models_that_fit_are_named():
    with pytest.raises(ConfigError) as caught:
        resolve("claude", NAMES, [])
    assert caught.value.hint.splitlines()[1].strip() == "anthropic/claude-sonnet-5-5"


def test_without_a_key_the_one_that_is_missing_is_named():
    providers = Providers({}, {})
    assert providers.full_name("sonnet") == "anthropic/claude-sonnet-5-5"
    with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY is not set"):
        providers.endpoint(providers.full_name("sonnet"))
