"""Some of each kind of fault, by the binary: what a person or a script sees of it."""

from __future__ import annotations

import json

import pytest

from tests.llm.faults import CASES, Outcome, staged
from tests.server.plan import KEY

NAMES = [
    "401-chat_completions-streamed",
    "401 with the key-responses-streamed",
    "404 model-anthropic_messages-streamed",
    "429 quota-responses-streamed",
    "529, once-anthropic_messages-streamed",
    "529, always-anthropic_messages-whole",
    "502 page, always-responses-streamed",
    "retry-after '3600' is too long-responses-streamed",
    "redirect 307-chat_completions-streamed",
    "redirect 302-anthropic_messages-whole",
    "refused-responses-streamed",
    "reset without an answer, always-chat_completions-whole",
    "close after 4 events, always-chat_completions-streamed",
    "cut after 4 events, always-anthropic_messages-streamed",
    "reset after 4 events, once-responses-streamed",
    "silent-anthropic_messages-whole",
    "mute-chat_completions-streamed",
    "falls silent-responses-streamed",
    "sends a page, always-responses-whole",
    "sends a page, always-chat_completions-streamed",
    "sends not UTF-8, always-anthropic_messages-streamed",
    "chat_completions error frame overloaded_error after 3, always-chat_completions-streamed",
    "responses error frame slow_down after 3, always-responses-streamed",
    "anthropic_messages error frame overloaded_error after 3, always-anthropic_messages-streamed",
    "text with line separators-chat_completions-streamed",
    "text with a lone surrogate-responses-whole",
    "text with escapes-anthropic_messages-streamed",
    "empty, always-anthropic_messages-streamed",
    "filtered, always-responses-streamed",
    "cut in a call, once-chat_completions-streamed",
    "calls announced, always-chat_completions-streamed",
    "arguments: broken, always-anthropic_messages-streamed",
    "arguments encoded twice-responses-streamed",
    "tool name with blanks, once-chat_completions-streamed",
    "usage absurd-anthropic_messages-streamed",
    "too long for Anthropic, once-anthropic_messages-streamed",
    "too long for OpenAI, always-chat_completions-streamed",
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
