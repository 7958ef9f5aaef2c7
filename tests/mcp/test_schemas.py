"""Tools with schemas that one provider or another refuses can be told and called everywhere."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import MODELS
from tests.mcp.conftest import results
from tests.server import Call, Reply

OWN = {
    "$filter": "x",
    "node": {"a b": "1", "next": {"a b": "kept"}},
    "labels": {"$filter": "kept"},
    "count": 1,
}
DECLARED = {
    "_filter": "x",
    "node": {"a_b": "1", "next": {"a b": "kept"}},
    "labels": {"$filter": "kept"},
    "count": 1,
}
DECLARED_AS_TEXT = {
    **DECLARED,
    "node": {"a_b": "1", "next": '{"a b": "kept"}'},
    "labels": '{"$filter": "kept"}',
}


def arguments_in(body: Any) -> list[Any]:
    """The arguments of the calls in a request, of whatever wire format."""
    found: list[Any] = []
    for item in body.get("messages") or body["input"]:
        if item.get("type") == "function_call":
            found.append(json.loads(item["arguments"]))
        found += [json.loads(c["function"]["arguments"]) for c in item.get("tool_calls") or []]
        blocks = item["content"] if isinstance(item.get("content"), list) else []
        found += [block["input"] for block in blocks if block.get("type") == "tool_use"]
    return found


@pytest.mark.parametrize("model", MODELS.values())
def test_each_wire_format_has_names_of_its_own_and_the_server_gets_its(agent, serve, server, model):
    server("plain", "schemas")
    script = [Reply("", [Call("mcp__plain__find", DECLARED)]), Reply("done")]
    provider = serve(script)
    run = agent.use(provider, model)("run", "--allow", "mcp__plain__*", "find it")
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr
    assert results(agent)[0]["content"] == f"called find with {json.dumps(OWN)}"
    assert arguments_in(provider.requests[1].body) == [DECLARED]


@pytest.mark.parametrize(
    ("name", "model", "declared"),
    [
        ("gemini", "gemini-3.8-flash", DECLARED_AS_TEXT),
        ("moonshot", "kimi-k3", DECLARED),
        ("llamacpp", "local", DECLARED),
    ],
)
def test_providers_with_rules_of_their_own_take_them(agent, serve, server, name, model, declared):
    server("plain", "schemas")
    config = agent.home / ".config" / "agent" / "config.toml"
    written = json.dumps(declared)
    in_text = f'<tool_call>{{"name": "mcp__plain__find", "arguments": {written}}}</tool_call>'
    script = [
        Reply("", [Call("mcp__plain__find", declared)], reasoning="Let me see."),
        Reply("", [Call("mcp__plain__find", f"{written[:-1]},}}")]),
        Reply(in_text),
        Reply("done"),
    ]
    provider = serve(script, provider=name)
    config.write_text(f'{config.read_text()}[providers.{name}]\nbase_url = "{provider.base_url}"\n')
    agent.env |= {"GEMINI_API_KEY": "g-test-0123456789", "MOONSHOT_API_KEY": "m-test-0123456789"}
    agent.use(provider, f"{name}/{model}")
    run = agent("run", "--allow", "mcp__plain__*", "--set", "tools.mcp_schema_share=0.5", "find it")
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr
    called = [result["content"] for result in results(agent)]
    assert called == [f"called find with {json.dumps(OWN)}"] * 3
    assert arguments_in(provider.requests[-1].body) == [declared] * 3
