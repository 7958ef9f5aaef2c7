"""Some of each kind of fault, by the binary: what a person or a script sees of it."""

from __future__ import annotations

import json

import pytest

from tests.llm.faults import CASES, Outcome, staged
from tests.server.plan import KEY

NAMES = [
    "401-openai-chat-streamed",
    "401 with the key-openai-streamed",
    "404 model-anthropic-streamed",
    "429 quota-openai-streamed",
    "529, once-anthropic-streamed",
    "529, always-anthropic-whole",
    "502 page, always-openai-streamed",
    "retry-after '3600' is too long-openai-streamed",
    "redirect 307-openai-chat-streamed",
    "redirect 302-anthropic-whole",
    "refused-openai-streamed",
    "reset without an answer, always-openai-chat-whole",
    "close after 4 events, always-openai-chat-streamed",
    "cut after 4 events, always-anthropic-streamed",
    "reset after 4 events, once-openai-streamed",
    "silent-anthropic-whole",
    "mute-openai-chat-streamed",
    "falls silent-openai-streamed",
    "sends a page, always-openai-whole",
    "sends a page, always-openai-chat-streamed",
    "sends not UTF-8, always-anthropic-streamed",
    "chat_completions error frame overloaded_error after 3, always-openai-chat-streamed",
    "responses error frame slow_down after 3, always-openai-streamed",
    "anthropic_messages error frame overloaded_error after 3, always-anthropic-streamed",
    "text with line separators-openai-chat-streamed",
    "text with a lone surrogate-openai-whole",
    "text with escapes-anthropic-streamed",
    "empty, always-anthropic-streamed",
    "filtered, always-openai-streamed",
    "cut in a call, once-openai-chat-streamed",
    "calls announced, always-openai-chat-streamed",
    "arguments: broken, always-anthropic-streamed",
    "arguments encoded twice-openai-streamed",
    "tool name with blanks, once-openai-chat-streamed",
    "usage absurd-anthropic-streamed",
    "too long for Anthropic, once-anthropic-streamed",
    "too long for OpenAI, always-openai-chat-streamed",
]


@pytest.mark.parametrize("case", NAMES)
def test_a_fault_ends_in_the_work_done_or_in_a_clear_error(agent, case):
    with staged(*CASES[case]) as stage:
        agent.use(stage.server)
        agent.env |= stage.environment(agent.home / "state")
        settings = [f"{key}={json.dumps(value)}" for key, value in stage.settings.items()]
        assigned = [word for setting in settings for word in ("--set", setting)]
        done = agent("run", "do it", "--output-format", "json", *assigned)
        result = json.loads(done.stdout)
        told = done.stdout + done.stderr
        outcome = Outcome(result["reason"], done.returncode, result["answer"], told)
        stage.check(outcome, agent.workspace, agent.sessions[0])
    assert result["exit_code"] == done.returncode
    assert KEY not in told
    if done.returncode:
        assert "error: " in done.stderr
        assert result["error"]["message"]
        assert "agent resume" in result["resume_command"]
        assert "agent resume" in done.stderr
