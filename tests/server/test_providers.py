"""Each provider's rules: what must be taken is taken, what breaks one is refused in its words."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from agentcli.llm.provider import known_providers
from tests.server import ModelServer, Reply
from tests.server.broken_rules import NOTED, REFUSED, Broken
from tests.server.clients import ask, chat
from tests.server.providers import PROVIDERS, Asked, Rule
from tests.server.samples import CALLS, CHAT, MESSAGES, RESPONSES

FULL = Reply("Two things to look at.", CALLS, reasoning="First the list, then the file.")
_WITHOUT = ("scripted", "bedrock", "vertex")
"""Where there is no server, or Anthropic's rules hold behind a cloud's address."""
CHATTING = [name for name in PROVIDERS if name not in ("anthropic", "openai")]
MODELS = {"openai-chat": "gpt-4.1", "azure": "gpt-4.1", "gemini": "gemini-3.8-flash"}
"""Models whose rules the plain sample request follows."""
broken = pytest.mark.parametrize(
    "case", REFUSED, ids=[f"{case.provider}-{case.says}" for case in REFUSED]
)


def send(server: ModelServer, case: Broken) -> Any:
    base = f"{server.messages_url}/v1" if case.path == "/messages" else server.base_url
    path = base.removeprefix(server.url) + case.path
    return ask(server, path, case.body, anthropic_version=case.version)


@broken
def test_what_breaks_a_rule_is_refused_in_the_providers_words(case: Broken) -> None:
    with ModelServer([Reply("Hi.")], provider=case.provider) as server:
        answer = send(server, case)
    assert any(case.says in told for told in server.violations), server.violations
    assert answer.status == case.status
    assert answer.json
    assert server.requests[0].refused


@pytest.mark.parametrize("case", NOTED, ids=[case.provider for case in NOTED])
def test_what_only_harms_is_noted_and_answered(case: Broken) -> None:
    with ModelServer([Reply("Hi.")], provider=case.provider) as server:
        assert send(server, case).status == 200
    (told,) = server.violations
    assert case.says in told


def test_each_rule_has_a_source_and_each_kind_of_rule_a_sample() -> None:
    """Rows of one table, such as the efforts by model, are one kind."""
    broken = {
        rule.finds.__code__
        for case in (*REFUSED, *NOTED)
        for rule in PROVIDERS[case.provider].rules
        if _breaks(case, rule)
    }
    for provider in PROVIDERS.values():
        for rule in provider.rules:
            assert "/" in rule.source
            assert rule.finds.__code__ in broken, rule


def _breaks(case: Broken, rule: Rule) -> bool:
    asked = Asked(case.body, {"anthropic-version": case.version, "authorization": "Bearer k"})
    return bool(re.search(rule.models, case.model)) and any(rule.finds(asked))


@pytest.mark.parametrize("name", [name for name in known_providers() if name not in _WITHOUT])
def test_every_provider_of_the_program_has_its_rules_here(name: str) -> None:
    assert name in PROVIDERS


@pytest.mark.parametrize("name", CHATTING)
class TestManners:
    @pytest.mark.parametrize("streamed", [False, True])
    def test_an_official_client_reads_its_answers(self, name: str, streamed: bool) -> None:
        with ModelServer([Reply("Done.")], provider=name, strict=False) as server:
            said = chat(server, streamed)
        assert said.text == "Done."

    def test_what_it_says_can_be_sent_back(self, name: str) -> None:
        """Two steps with reasoning and parallel calls, each message as it came."""
        messages: list[Any] = [{"role": "user", "content": "hi"}]
        body: dict[str, Any] = {"model": MODELS.get(name, "m"), "tools": CHAT["tools"]}
        with ModelServer([FULL, FULL, Reply("Done.")], provider=name) as server:
            path = server.base_url.removeprefix(server.url) + "/chat/completions"
            for _ in range(3):
                answer = ask(server, path, body | {"messages": messages}).json
                said = {k: v for k, v in answer["choices"][0]["message"].items() if v is not None}
                messages.append(said)
                for call in said.get("tool_calls", []):
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": "ok"})
        assert server.violations == []
        assert messages[-1]["content"].endswith("Done.")

    def test_its_errors_say_what_was_refused(self, name: str) -> None:
        with ModelServer([], provider=name) as server:
            path = server.base_url.removeprefix(server.url) + "/chat/completions"
            answer = ask(server, path, CHAT | {"messages": []})
        assert answer.status in (400, 422)
        assert "messages" in json.dumps(answer.json)


@pytest.mark.parametrize("name", [n for n, each in PROVIDERS.items() if each.overflow])
def test_a_window_holds_no_more_than_it_holds(name: str) -> None:
    with ModelServer([Reply("Hi.")], provider=name, window=9) as server:
        path = server.base_url.removeprefix(server.url) + "/chat/completions"
        body = {"model": "m", "messages": [{"role": "user", "content": "x" * 99}]}
        answer = ask(server, path, body)
    assert answer.status in (400, 413)
    assert answer.body or name == "cerebras"


def test_ollama_cuts_what_does_not_fit_and_says_nothing() -> None:
    with ModelServer([Reply("Hi.")], provider="ollama", window=9) as server:
        body = {"model": "m", "messages": [{"role": "user", "content": "x" * 99}]}
        answer = ask(server, "/v1/chat/completions", body)
    assert answer.json["usage"]["prompt_tokens"] == 9


class TestBindings:
    """What a model thought is valid in its place only."""

    def test_claude_takes_its_thinking_back_behind_the_same_conversation(self) -> None:
        body = MESSAGES | {"model": "claude-sonnet-5-5", "thinking": {"type": "adaptive"}}
        body |= {"messages": [{"role": "user", "content": "hi"}]}
        with ModelServer([FULL] * 3, provider="anthropic") as server:
            said = ask(server, "/v1/messages", body | {"stream": False}).json["content"]
            uses = [block["id"] for block in said if block["type"] == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": use, "content": ""} for use in uses]
            messages = [
                *body["messages"],
                {"role": "assistant", "content": said},
                {"role": "user", "content": results},
            ]
            assert said[0]["thinking"] == ""  # as nobody asked to be shown it
            assert ask(server, "/v1/messages", body | {"messages": messages}).status == 200
            moved = body | {"messages": messages, "system": "Be long."}
            assert ask(server, "/v1/messages", moved).status == 400
            dropping = {"type": "adaptive"} | {
                "block_binding": {"prefix_mismatch_behavior": "drop_block"}
            }
            beta = "thinking-binding-controls-2026-08-01"
            answer = ask(
                server, "/v1/messages", moved | {"thinking": dropping}, anthropic_beta=beta
            )
            assert answer.status == 200

    def test_encrypted_reasoning_is_for_the_account_that_got_it(self) -> None:
        body = RESPONSES | {"model": "gpt-5.5", "input": "hi", "stream": False}
        with ModelServer([Reply("Hi.", reasoning="Hm.")] * 3, provider="openai") as server:
            said = ask(server, "/v1/responses", body).json["output"]
            again = body | {"input": [*said, {"role": "user", "content": "Go on."}]}
            assert said[1]["phase"] == "final_answer"
            assert ask(server, "/v1/responses", again).status == 200
            other = ask(server, "/v1/responses", again, authorization="Bearer another")
        assert other.status == 400
        assert other.json["error"]["code"] == "invalid_encrypted_content"
