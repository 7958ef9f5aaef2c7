"""What is known of a model at an endpoint: its traits, its names, what refusals taught of it."""

from __future__ import annotations

import json
import os
import time

import pytest

from agentcli.errors import ConfigError
from agentcli.llm.catalog import resolve
from agentcli.llm.probing import Findings
from agentcli.llm.provider import LEVELS, Traits, known_providers, nearest_level
from agentcli.llm.registry import Providers
from agentcli.llm.wire_protocol import Endpoint
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


HERE = Endpoint("lab", "m", "http://127.0.0.1:9/v1?key=secret", "sk-secret")


@pytest.fixture
def findings(tmp_path):
    return Findings(tmp_path / "endpoints")


def test_what_is_kept_adds_up(findings):
    findings.keep(HERE, {"unwanted": ["store"], "images": "none"})
    findings.keep(HERE, {"unwanted": ["store", "include"]})
    assert findings.of(HERE) == {"unwanted": ["store", "include"], "images": "none"}
    traits = Traits().with_changes(findings.of(HERE))
    assert (list(traits.unwanted), traits.images) == (["store", "include"], "none")


def test_each_endpoint_and_model_has_its_own(findings):
    findings.keep(HERE, {"images": "none"})
    others = [
        Endpoint("lab", "n", HERE.base_url, None),
        Endpoint("other", "m", HERE.base_url, None),
        Endpoint("lab", "m", "http://127.0.0.1:8/v1", None),
    ]
    assert [findings.of(other) for other in others] == [{}, {}, {}]
    assert findings.of(Endpoint("lab", "m", HERE.base_url, "another key")) == {"images": "none"}


def test_no_secret_of_an_address_is_written(findings):
    findings.keep(HERE, {"images": "none"})
    (path,) = findings.folder.iterdir()
    assert "secret" not in path.name + path.read_text()
    assert findings.folder.stat().st_mode & 0o077 == 0


def test_a_server_may_have_learned_after_a_week(findings):
    findings.keep(HERE, {"images": "none"})
    (path,) = findings.folder.iterdir()
    day = 24 * 3600
    os.utime(path, (time.time(), time.time() - 6 * day))
    assert findings.of(HERE) == {"images": "none"}
    os.utime(path, (time.time(), time.time() - 8 * day))
    assert findings.of(HERE) == {}


def test_another_version_may_know_more_of_a_provider(findings, monkeypatch):
    findings.keep(HERE, {"efforts": {"low": {"reasoning_effort": "low"}}, "images": "none"})
    monkeypatch.setattr("agentcli.llm.probing.__version__", "another")
    assert findings.of(HERE) == {}
    findings.keep(HERE, {"short_ids": True})
    assert findings.of(HERE) == {"short_ids": True}


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"changes": 7}', "[" * 99_999, "\xff"])
def test_a_file_that_is_broken_counts_as_unknown(findings, text):
    findings.keep(HERE, {"images": "none"})
    (path,) = findings.folder.iterdir()
    path.write_bytes(text.encode("latin-1"))
    assert findings.of(HERE) == {}
    findings.keep(HERE, {"short_ids": True})
    assert findings.of(HERE) == {"short_ids": True}


def test_a_folder_that_can_not_be_written_costs_only_the_memory(findings, caplog):
    findings.folder.write_text("a file")
    findings.keep(HERE, {"images": "none"})
    assert findings.of(HERE) == {}
    assert "can't be kept" in caplog.text


@pytest.mark.parametrize(
    "changes",
    [
        {"unheard_of": 1},
        {"images": 7},
        {"short_ids": "yes"},
        {"most_output_tokens": True},
        {"unwanted": "store"},
        {"efforts": ["low"]},
        {"filled": None},
    ],
)
def test_changes_of_another_version_are_left_out(changes):
    assert Traits().with_changes(json.loads(json.dumps(changes))) == Traits()
