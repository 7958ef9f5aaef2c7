"""What a provider sent goes back as it was, to the same provider and family of models."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from agentcli.llm.protocols.anthropic_messages import AnthropicMessages
from agentcli.llm.protocols.chat_completions import ChatCompletions
from agentcli.llm.protocols.responses import Responses
from agentcli.llm.provider import Traits
from agentcli.llm.sdk import SDKProtocol
from agentcli.llm.wire_protocol import Endpoint
from agentcli.messages import Message, Reply, Request

USAGE = {"input_tokens": 9, "output_tokens": 3, "prompt_tokens": 9, "completion_tokens": 3}

# What each wire format's model sent, as the content of one whole answer.
CHAT: dict[str, Any] = {
    "role": "assistant",
    "content": "Let me look.",
    "reasoning_content": "They want a list.",
    "reasoning_details": [
        {"type": "reasoning.text", "text": "They want a list.", "signature": "s1", "index": 0},
        {"type": "reasoning.encrypted", "data": "x1", "id": "rs_1", "index": 1},
    ],
    "thinking_blocks": [{"type": "thinking", "thinking": "They want.", "signature": "s1"}],
    "vendor_memo": {"kept": [1, 2]},
    "tool_calls": [
        {
            "id": "call_1",
            "type": "function",
            "function": {"name": "bash", "arguments": '{"command":"ls"}'},
            "extra_content": {"google": {"thought_signature": "sig=="}},
        },
        {
            "id": "call_2",
            "type": "function",
            "function": {"name": "bash", "arguments": '{"command":"pwd"}'},
        },
    ],
}
ITEMS: list[dict[str, Any]] = [
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "x"}},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "phase": "commentary",
        "content": [{"type": "output_text", "text": "Let me look.", "annotations": []}],
    },
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "bash",
        "arguments": '{"command":"ls"}',
        "status": "completed",
        "namespace": "own",
    },
]
BLOCKS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "They want a list.", "signature": "s1"},
    {"type": "redacted_thinking", "data": "x1"},
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [{"type": "web_search_result", "url": "http://x", "encrypted_content": "e"}],
    },
    {"type": "text", "text": "Let me look."},
    {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "bash",
        "input": {"command": "ls"},
        "caller": {"type": "direct"},
    },
]


def whole(wire: type[SDKProtocol]) -> dict[str, Any]:
    if wire is ChatCompletions:
        return {"choices": [{"message": CHAT, "finish_reason": "tool_calls"}], "usage": USAGE}
    if wire is Responses:
        return {"status": "completed", "output": ITEMS, "usage": USAGE}
    return {"type": "message", "content": BLOCKS, "stop_reason": "tool_use", "usage": USAGE}


def streamed(wire: type[SDKProtocol]) -> Iterator[dict[str, Any]]:
    if wire is ChatCompletions:
        for name, value in CHAT.items():
            if name == "reasoning_details":
                yield _delta({name: [{**value[0], "text": "They ", "signature": None}]})
                yield _delta({name: [{**value[0], "text": "want a list."}]})
                yield _delta({name: value[1:]})
            elif isinstance(value, str) and name != "role":
                yield _delta({name: value[:4]})
                yield _delta({name: value[4:]})
            elif name == "tool_calls":
                yield from (_delta({name: [{**c, "index": n}]}) for n, c in enumerate(value))
            else:
                yield _delta({name: value})
        yield {"choices": [{"delta": {}, "finish_reason": "tool_calls"}], "usage": USAGE}
    elif wire is Responses:
        for n, item in enumerate(ITEMS):
            added = {**item, "encrypted_content": ""} if "encrypted_content" in item else item
            yield {"type": "response.output_item.added", "output_index": n, "item": added}
            yield {"type": "response.output_item.done", "output_index": n, "item": item}
        yield {"type": "response.completed", "response": {"usage": USAGE}}
    else:
        for n, block in enumerate(BLOCKS):
            yield {"type": "content_block_start", "index": n, "content_block": block}
        yield {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": USAGE}
        yield {"type": "message_stop"}


def _delta(members: dict[str, Any]) -> dict[str, Any]:
    return {"choices": [{"delta": members}]}


def protocol(wire: type[SDKProtocol], name: str = "lab/m", traits: Traits | None = None):
    provider, _, model = name.partition("/")
    return wire(Endpoint(provider, model, "http://127.0.0.1:9/v1", None, traits=traits or Traits()))


def said(wire: type[SDKProtocol], *, in_pieces: bool, name: str = "lab/m") -> Message:
    """The message that a reply becomes in the conversation."""
    here = protocol(wire, name)
    items = here._read(streamed(wire)) if in_pieces else [here._parse(whole(wire))]
    reply = next(item for item in items if isinstance(item, Reply))
    return Message.from_tool_calls(reply.tool_calls, reply.text, reply.provider_data)


def sent(there: SDKProtocol, message: Message) -> list[Any]:
    """What goes to a server of the model's own turn."""
    results = [Message.tool_message("ok", call.id) for call in message.tool_calls]
    request = Request([Message.user_message("list"), message, *results])
    body = json.loads(there._body(request))
    if isinstance(there, Responses):
        kinds = ("function_call_output",)
        return [i for i in body["input"] if i.get("role") != "user" and i["type"] not in kinds]
    turn = next(m for m in body["messages"] if m["role"] == "assistant")
    return turn["content"] if isinstance(there, AnthropicMessages) else [turn]


CAME = {ChatCompletions: [CHAT], Responses: ITEMS, AnthropicMessages: BLOCKS}
WIRES = list(CAME)
OPAQUE = ["gAAA", "s1", "x1", "sig==", "rs_1", "vendor_memo", "commentary", "srvtoolu", "direct"]

both = pytest.mark.parametrize("in_pieces", [False, True], ids=["whole", "streamed"])
every = pytest.mark.parametrize("wire", WIRES)


@both
@every
def test_it_goes_back_to_the_byte(wire, in_pieces):
    returned = sent(protocol(wire), said(wire, in_pieces=in_pieces))
    assert [_normal(item) for item in returned] == [_normal(item) for item in CAME[wire]]


def _normal(item: dict[str, Any]) -> dict[str, Any]:
    """Arguments are JSON in a text, whose blanks mean nothing."""
    text = json.dumps(item, sort_keys=True)
    return json.loads(text.replace('\\": \\"', '\\":\\"'))


@every
@pytest.mark.parametrize(
    "name", ["lab/m-20260901", "lab/m-latest", "lab/m:free"], ids=["dated", "latest", "free"]
)
def test_a_variant_of_the_model_reads_it_too(wire, name):
    assert sent(protocol(wire, name), said(wire, in_pieces=False)) == sent(
        protocol(wire), said(wire, in_pieces=False)
    )


@both
@every
@pytest.mark.parametrize("name", ["other/m", "lab/n", "lab/m-mini"])
def test_nobody_else_gets_any_of_it(wire, name, in_pieces):
    told = json.dumps(sent(protocol(wire, name), said(wire, in_pieces=in_pieces)))
    assert "Let me look." in told
    assert '"ls' in told or '\\"ls' in told
    assert [word for word in OPAQUE if word in told] == []


@every
def test_no_other_wire_format_gets_any_of_it(wire):
    for other in WIRES:
        if other is not wire:
            told = json.dumps(sent(protocol(other), said(wire, in_pieces=False)))
            assert [word for word in OPAQUE if word in told] == []


@every
def test_what_a_model_does_not_take_back_stays_away(wire):
    names = ("reasoning_content", "vendor_memo", "reasoning", "web_search_call", "thinking")
    there = protocol(wire, traits=Traits(not_returned=names))
    returned = sent(there, said(wire, in_pieces=False))
    kinds = {item.get("type") for item in returned}
    assert not kinds & set(names)
    assert not any(name in item for item in returned for name in names)
    assert "Let me look." in json.dumps(returned)


def test_what_must_be_there_is_filled_in_where_it_lacks():
    there = protocol(ChatCompletions, traits=Traits(filled={"reasoning_content": " "}))
    (own,) = sent(there, said(ChatCompletions, in_pieces=False))
    assert own["reasoning_content"] == CHAT["reasoning_content"]
    (foreign,) = sent(there, said(ChatCompletions, in_pieces=False, name="lab/other"))
    assert foreign["reasoning_content"] == " "


def test_the_first_call_of_another_model_is_marked():
    mark = {"extra_content": {"google": {"thought_signature": "skip"}}}
    there = protocol(ChatCompletions, traits=Traits(stand_in=mark))
    (own,) = sent(there, said(ChatCompletions, in_pieces=False))
    assert [call.get("extra_content") for call in own["tool_calls"]] == [
        {"google": {"thought_signature": "sig=="}},
        None,
    ]
    (foreign,) = sent(there, said(ChatCompletions, in_pieces=False, name="lab/other"))
    assert [call.get("extra_content") for call in foreign["tool_calls"]] == [
        {"google": {"thought_signature": "skip"}},
        None,
    ]


def test_bound_thinking_is_left_out_when_what_stood_before_it_changed():
    kept = said(AnthropicMessages, in_pieces=False)
    changed = replace(kept, prefix_changed=True)
    bound = protocol(AnthropicMessages, traits=Traits(is_bound=True))
    free = protocol(AnthropicMessages)
    thinking = ["thinking", "redacted_thinking"]
    kinds = [block["type"] for block in BLOCKS]
    assert [block["type"] for block in sent(bound, kept)] == kinds
    assert [block["type"] for block in sent(free, changed)] == kinds
    assert [b["type"] for b in sent(bound, changed)] == [k for k in kinds if k not in thinking]


def test_thinking_in_the_text_goes_back_within_it():
    here = protocol(ChatCompletions)
    text = "<think>They want a list.</think>Here."
    message = {"role": "assistant", "content": text}
    reply = here._parse({"choices": [{"message": message, "finish_reason": "stop"}]})
    kept = Message.from_tool_calls([], "Here.", reply.provider_data)
    (returned,) = sent(here, kept)
    assert returned["content"] == text


@pytest.mark.parametrize(
    "made", ["toolu_1", "functions.bash:0", "call_" + "x" * 60, "é", "abc123XYZ"]
)
def test_ids_are_what_the_server_takes_and_the_same_for_a_call_and_its_result(made):
    forms = {
        "nine": (ChatCompletions, Traits(short_ids=True), r"[a-zA-Z0-9]{9}"),
        "chat": (ChatCompletions, Traits(), r"[\w.:-]{1,40}"),
        "items": (Responses, Traits(), r"[\w.:-]{1,64}"),
        "claude": (AnthropicMessages, Traits(), r"[a-zA-Z0-9_-]{1,64}"),
    }
    call = replace(said(ChatCompletions, in_pieces=False).tool_calls[0], id=made)
    talk = [Message.from_tool_calls([call]), Message.tool_message("ok", made)]
    for wire, traits, form in forms.values():
        there = protocol(wire, traits=traits)
        (one,) = {there._wire_id(call.id), there._wire_id(made)}
        assert re.fullmatch(form, one)
        assert (
            there._body(Request([Message.user_message("x"), *talk])).count(f'"{one}"'.encode()) == 2
        )
