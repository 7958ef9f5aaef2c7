"""Servers that take the protocol lightly: what can be read of them is used, the rest is named."""

from __future__ import annotations

import base64
import json

import pytest

from agentcli.mcp.transports import Health, _joined, _parsed
from tests.mcp.conftest import records, results, told, tools_told
from tests.mcp.plain_server import PNG
from tests.server import Call, Reply

ALL = ("--allow", "mcp__plain__*")
SVG = base64.b64encode(b"<svg/>").decode()
WORDS = {"type": "text", "text": "a value"}

ODD_RESULTS: dict[str, tuple[object, str]] = {
    "no type": ({"content": [{"text": "a value"}]}, "a value"),
    "strings": ({"content": ["a value", None, 5]}, "a value\n5"),
    "a string": ({"content": "a value"}, "a value"),
    "a block": ({"content": WORDS}, "a value"),
    "only the string": ("a value", "a value"),
    "only blocks": ([WORDS], "a value"),
    "the first protocol": ({"toolResult": {"a": 1}}, '{"a": 1}'),
    "members of its own": ({"answer": 42}, '{"answer": 42}'),
    "data alone": ({"structuredContent": {"answer": 42}}, '{\n "answer": 42\n}'),
    "a list as data": ({"structuredContent": [1], "content": None}, '{\n "result": [\n  1\n ]\n}'),
    "nothing": ({}, "[it answered nothing]"),
    "no error": ({"content": [WORDS], "isError": "false"}, "a value"),
    "odd notes": (
        {"content": [{**WORDS, "annotations": {"priority": "high"}, "_meta": 1}], "_meta": "x"},
        "a value",
    ),
    "a link": (
        {"content": [{"type": "resource_link", "uri": "not a uri", "name": None}]},
        "[resource not a uri]",
    ),
    "an unknown block": (
        {"content": [WORDS, {"type": "video", "url": "x"}]},
        'a value\n[content of the unknown kind video: {"url": "x"}]',
    ),
    "an SVG": (
        {"content": [{"type": "image", "data": SVG, "mimeType": "image/svg+xml"}]},
        "<svg/>",
    ),
    "an empty image": ({"content": [{"type": "image", "data": ""}]}, "[an image without data]"),
    "an image elsewhere": (
        {"content": [{"type": "image", "url": "https://example.org/a.png"}]},
        "[an image at https://example.org/a.png]",
    ),
    "a resource of neither kind": (
        {"content": [{"type": "resource", "resource": {"uri": "a:b"}}]},
        "[a:b (unknown), 0 bytes, is not shown]",
    ),
}


def give(result: object) -> Reply:
    return Reply("", [Call("mcp__plain__give", {"result": result})])


def test_odd_results_are_shown_as_what_they_are_between_all_kinds_of_noise(agent, serve, server):
    server("plain", "odd")
    calls = [give(result) for result, _ in ODD_RESULTS.values()]
    model = serve([*calls, Reply("done")])
    run = agent.use(model)("run", *ALL, "--set", "agent.max_turns=90", "try all")
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr
    shown = [each["content"] for each in results(agent)]
    assert dict(zip(ODD_RESULTS, shown, strict=True)) == {
        name: text for name, (_, text) in ODD_RESULTS.items()
    }


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "data": f"data:image/png;base64,{PNG}"},
        {"type": "image", "data": f" {PNG[:20]}\n{PNG[20:]}", "mimeType": "image/png"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
    ],
)
def test_an_image_is_one_in_any_form(agent, serve, server, block):
    server("plain", "odd")
    model = serve([give({"content": [block]}), Reply("done")])
    assert agent.use(model)("run", *ALL, "show it").returncode == 0
    [result] = results(agent)
    assert result["extras"]["image_urls"] == [f"data:image/png;base64,{PNG}"]


def test_tools_that_cannot_be_used_are_left_out_by_name_and_the_others_work(agent, serve, server):
    server("plain", "odd")
    loose = Reply("", [Call("mcp__plain__loose", {"a_b": 1})])
    model = serve([loose, Reply("done")])
    run = agent.use(model)("run", *ALL, "try")
    said = (
        "of the tools of the server plain, these are left out: bare (it has no schema), "
        "listed (it has a schema that is no object), tool 3 (it has no name), "
        "tool 4 (it has no name)"
    )
    assert run.stderr.count(said) == 1
    assert said in told(model, 0)
    names = [name for name in tools_told(model) if name.startswith("mcp")]
    assert names == ["mcp__plain__give", "mcp__plain__loose"]
    assert (
        tools_told(model)["mcp__plain__give"]["description"] == "[plain does not say what it does]"
    )
    shown = agent("mcp", "test").stdout
    assert "left out  bare" in shown


def test_an_unknown_version_of_the_protocol_is_told_with_ours(agent, serve, server):
    server("plain", "future")
    run = agent.use(serve([Reply("ok")]))("run", "hi")
    assert run.stdout == "ok\n"
    said = "it speaks version 2099-01-01 of the protocol, and agent 2024-11-05 to "
    assert f"the tool server plain is left out: {said}" in run.stderr


@pytest.mark.parametrize("by", ["mcp_call", "its name"])
def test_tools_that_come_later_can_be_called_and_the_prompt_stays(agent, serve, server, by):
    server("plain", "changing")
    orders = (
        Call("mcp_call", {"tool": "mcp__plain__orders", "arguments": {"customer": "c1"}})
        if by == "mcp_call"
        else Call("mcp__plain__orders", {"customer": "c1"})
    )
    sign_in = Call("mcp__plain__sign_in", {})
    model = serve([Reply("", [sign_in]), Reply("", [orders]), Reply("done")])
    run = agent.use(model)("run", *ALL, "sign in and list the orders")
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr
    first, second = results(agent)
    assert first["content"].startswith("signed in\n[There are new tools: mcp__plain__orders. ")
    assert '"customer"' in first["content"]
    assert second["content"] == 'called orders with {"customer": "c1"}'
    names = list(tools_told(model, 0))
    assert [name for name in names if "mcp" in name] == ["mcp__plain__sign_in", "mcp_call"]
    assert list(tools_told(model, 2)) == names


def test_rules_hold_for_tools_that_come_later(agent, serve, server):
    server("plain", "changing")
    calls = [Call("mcp__plain__sign_in", {}), Call("mcp__plain__orders", {})]
    model = serve([*(Reply("", [call]) for call in calls), Reply("I could not.")])
    agent.use(model)("run", "--allow", "mcp__plain__sign_in", "list the orders")
    assert [each["content"][:9] for each in results(agent)] == ["signed in"]
    assert "it calls a tool of the server plain" in json.dumps(records(agent))


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ({"id": 1.0, "result": {}}, {"id": 1, "result": {}}),
        (
            {"jsonrpc": "1.0", "id": "1", "result": None, "error": None},
            {"id": "1", "result": {"content": None}},
        ),
        (
            {"jsonrpc": "2.0", "id": 1, "error": "broken"},
            {"id": 1, "error": {"code": -32603, "message": "broken"}},
        ),
        (
            {
                "jsonrpc": "2.0",
                "id": 1,
                "error": {"code": "E1", "message": {"a": 1}},
                "result": None,
            },
            {"id": 1, "error": {"code": -32603, "message": '{"a": 1}'}},
        ),
        (
            {"jsonrpc": "2.0", "method": "notifications/message", "params": None},
            {"method": "notifications/message"},
        ),
    ],
)
def test_messages_in_a_form_of_their_own_are_read(line, read):
    [message] = _parsed(json.dumps(line).encode(), Health())
    assert message.model_dump(exclude_unset=True) == {"jsonrpc": "2.0", **read}


@pytest.mark.parametrize(
    "line",
    [
        'Listening{"jsonrpc": "2.0", "id": 7, "result": {}}',
        '{"jsonrpc": "2.0", "id": 7, "result": {}} sent',
        'DEBUG got {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}',
        "{'jsonrpc': '2.0', 'id': 7, 'result': {}}",
        '{"id": 1, "level": "error", "error": "full", "result": {}}',
    ],
)
def test_an_answer_beside_other_text_is_read_and_no_log_of_a_request(line):
    health = Health()
    found = [each.id for each in _parsed(line.encode(), health)]
    assert (found, health.fault) == ([7] if '"id": 7' in line else [], "")


def test_messages_may_come_in_a_batch():
    batch = [{"jsonrpc": "2.0", "id": n, "result": {}} for n in range(3)]
    assert [each.id for each in _parsed(json.dumps(batch).encode(), Health())] == [0, 1, 2]


def test_messages_over_several_lines_are_read_between_values_that_are_none():
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "a"}]}}
    printed = [json.dumps(answer, indent=2), "{\n  port: 3000\n}", "{", json.dumps(answer), "}"]
    lines = "\n".join(printed).encode().split(b"\n")
    found = [
        m for line in _joined(map(bytearray, lines), bytearray()) for m in _parsed(line, Health())
    ]
    assert [each.id for each in found] == [1, 1]
