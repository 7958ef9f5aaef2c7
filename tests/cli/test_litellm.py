"""Claude behind a LiteLLM proxy, spoken to by Chat Completions: its signed thinking comes in pieces
and goes back whole."""

from __future__ import annotations

import json

import pytest

from agentcli.llm.protocols.chat_completions import ChatCompletions
from agentcli.llm.wire_protocol import Endpoint
from agentcli.messages import Message, Request, Role
from agentcli.messages import Reply as Answer
from tests.server import Altered, Call, ModelServer, Reply

FIRST = {"type": "thinking", "thinking": "First the list. Then", "signature": "c2lnbmVk"}
HIDDEN = {"type": "redacted_thinking", "data": "c2VhbGVk"}
PIECES = [
    {"type": "thinking", "thinking": "First the list."},
    {"type": "thinking", "thinking": " Then"},
    {"type": "thinking", "thinking": "", "signature": "c2lnbmVk"},
    HIDDEN,
    {"type": "thinking", "thinking": "cut before it was signed"},
]


def with_thinking(events: list[bytes]) -> list[bytes]:
    """The answer as the proxy sends it: streamed in pieces, or whole."""
    if events[0].startswith(b"data:"):
        deltas = [{"choices": [{"index": 0, "delta": {"thinking_blocks": [p]}}]} for p in PIECES]
        return [*(b"data: " + json.dumps(delta).encode() + b"\n\n" for delta in deltas), *events]
    document = json.loads(events[0])
    document["choices"][0]["message"]["thinking_blocks"] = [FIRST, HIDDEN]
    return [json.dumps(document).encode()]


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_signed_thinking_goes_back_with_the_reply(stream):
    step = Altered(Reply("Looking.", [Call("bash", {"command": "ls"})]), with_thinking)
    with ModelServer([step, Reply("Done.")], strict=False) as server:
        endpoint = Endpoint("litellm", "claude", f"{server.url}/v1", "key-0123", stream=stream)
        model = ChatCompletions(endpoint)
        model.connect()
        task = Message.user_message("go")
        answer = next(item for item in model.answer(Request([task])) if isinstance(item, Answer))
        assert answer.provider_data is not None
        called = Message.from_tool_calls(answer.tool_calls, answer.text, answer.provider_data)
        result = Message.tool_message("a.txt", answer.tool_calls[0].id)
        list(model.answer(Request([task, called, result])))
    said = server.requests[1].body["messages"][1]
    assert said["role"] == Role.ASSISTANT
    assert said["thinking_blocks"] == [FIRST, HIDDEN]
