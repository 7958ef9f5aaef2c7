"""Nonsense from a client is answered with the protocol's errors, and the process lives on."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.acp.transport import InvalidMessage, read_message

PARSE, INVALID, NO_METHOD, PARAMS, NOT_FOUND = -32700, -32600, -32601, -32602, -32002


@pytest.fixture
def spoken(agent):
    """A function that sends a line to `agent acp` and returns the next line of its output."""
    agent.env |= {"OPENAI_API_KEY": "sk-test-0123456789abcdef", "AGENT_MODEL": "openai/gpt-5.5"}
    with agent.start("acp", stdin=-1) as process:

        def say(line: object) -> dict:
            data = line if isinstance(line, bytes) else json.dumps(line).encode()
            process.stdin.write(data + b"\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield say
        process.stdin.close()
        for line in process.stdout.read().splitlines():
            assert json.loads(line)["method"] == "session/update"
        assert process.wait(20) == 0
        assert process.stderr.read() == b""


def test_nonsense_is_answered_and_work_goes_on(spoken, agent, tmp_path):
    def request(method: object, **params: object) -> dict:
        return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}

    here = {"cwd": str(agent.workspace), "mcpServers": []}
    nonsense = [
        (b"{not json", PARSE, None),
        (b"\xff\xfe", PARSE, None),
        (b"[" * 100_000, PARSE, None),
        ([request("initialize", protocolVersion=1)], INVALID, None),
        (3, INVALID, None),
        (request({}), INVALID, 7),
        ({"jsonrpc": "2.0", "id": [], "method": "initialize"}, INVALID, None),
        ({"jsonrpc": "2.0", "id": 7}, INVALID, 7),
        (request("make/coffee"), NO_METHOD, 7),
        (request("_house/method"), NO_METHOD, 7),
        ({"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": 3}, PARAMS, 7),
        (request("session/new"), PARAMS, 7),
        (request("session/new", **(here | {"cwd": "src"})), PARAMS, 7),
        (request("session/new", **(here | {"cwd": str(tmp_path / "gone")})), PARAMS, 7),
        (request("session/new", **(here | {"cwd": "/\0"})), PARAMS, 7),
        (request("session/load", sessionId="../..", **here), NOT_FOUND, 7),
        (request("session/load", sessionId="", **here), NOT_FOUND, 7),
        (request("session/prompt", sessionId="none", prompt=[]), NOT_FOUND, 7),
        (request("session/set_mode", sessionId="none", modeId="plan"), NOT_FOUND, 7),
        (request("session/list", cursor="x"), PARAMS, 7),
        (request("authenticate", methodId="magic"), PARAMS, 7),
    ]
    for line, code, answered in nonsense:
        answer = spoken(line)
        told = answer.get("error", {})
        assert (told.get("code"), answer["id"]) == (code, answered), (line, answer)
        assert told["message"]
    # Answers to what nobody asked, and notifications that there are none of, are heard in silence.
    for line in (
        {"jsonrpc": "2.0", "id": 99, "result": {}},
        {"jsonrpc": "2.0", "id": 99, "error": "no object"},
        {"jsonrpc": "2.0", "method": "make/coffee"},
        {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "none"}},
        {"jsonrpc": "2.0", "method": "session/cancel", "params": 3},
    ):
        made = spoken(json.dumps(line).encode() + b"\n" + json.dumps(request("none")).encode())
        assert made["error"]["code"] == NO_METHOD
    made = spoken(request("initialize", protocolVersion=99))
    assert made["result"]["protocolVersion"] == 1
    made = spoken(request("session/new", **here))
    assert made["result"]["sessionId"]
    assert agent.sessions == []


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda some: (
            st.lists(some)
            | st.dictionaries(
                st.sampled_from(["id", "method", "params", "result", "error", "x"]), some
            )
        ),
    )
)
def test_whatever_comes_is_a_message_or_told_why_not(value):
    try:
        message = read_message(json.dumps(value).encode())
    except InvalidMessage as invalid:
        message = invalid.answer
        codes = (PARSE, INVALID)
        assert message["error"]["code"] in codes
    if "method" in message:
        assert isinstance(message["method"], str)
    else:
        assert isinstance(message.get("error", {}), dict)
