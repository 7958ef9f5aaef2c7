"""Many tools: the model is told of a search for them, and the prompt stays as it was."""

from __future__ import annotations

import json

from tests.mcp.conftest import results, told, tools_told
from tests.server import Call, Reply

MOST_TOKENS = 400
"""By which 200 tools may make the fixed prompt longer."""


def fixed_tokens(model) -> int:
    body = model.requests[0].body
    return len(json.dumps([body["tools"], body["messages"][0]], ensure_ascii=False)) // 4


def test_two_hundred_tools_are_found_by_a_search(agent, serve, server):
    agent.use(without := serve([Reply("ok")]))
    agent("run", "hi")
    for number in range(4):
        server(f"house{number}", "good", "50")
    search = Call("mcp_search", {"query": "house2 job_17"})
    found = {"tool": "mcp__house2__job_17", "arguments": {"customer": "c1"}}
    model = serve([Reply("", [search]), Reply("", [Call("mcp_call", found)]), Reply("done")])
    run = agent.use(model)("run", "--allow", "mcp__house2__*", "do the job")
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr
    tools = tools_told(model)
    assert not [name for name in tools if name.startswith("mcp__")]
    assert (
        "house0 (50), house1 (50), house2 (50), house3 (50)" in tools["mcp_search"]["description"]
    )
    assert fixed_tokens(model) - fixed_tokens(without) <= MOST_TOKENS
    assert '\\"customer\\"' in told(model, 1)
    [result] = results(agent)
    assert result["content"] == 'called job_17 with {"customer": "c1"}'
    assert tools_told(model, 2) == tools


def test_rules_are_about_the_tool_that_is_called_in_the_end(agent, serve, server):
    server("house", "good", "60")
    calls = [
        Call("mcp_call", {"tool": "mcp__house__job_1"}),
        Call("mcp_call", {"tool": "mcp__house__job_x"}),
        Call("mcp_call", {"tool": "mcp__house__job_2"}),
    ]
    model = serve([*(Reply("", [call]) for call in calls), Reply("done")])
    agent.use(model)("run", "--allow", "mcp__house__job_2", "do the job")
    assert [each["content"] for each in results(agent)] == ["called job_2 with {}"]
    assert "it calls a tool of the server house" in told(model, 1)
    assert "Did you mean mcp__house__job_" in told(model, 2)


def test_how_much_is_told_is_a_setting(agent, serve, server):
    server("house", "good", "10")
    agent.use(model := serve([Reply("ok"), Reply("ok")], sessions=2))
    agent("run", "hi")
    agent("run", "--set", "tools.mcp_schema_share=0", "hi")
    assert "mcp__house__job_1" in tools_told(model, 0)
    assert "mcp_search" in tools_told(model, 1)


def test_servers_can_be_switched_off_and_tools_left_out(agent, serve, server):
    server("house", "good", tools=["echo", "l*"], disabled_tools=["look"])
    server("shed", "good", enabled=False)
    agent.use(model := serve([Reply("ok"), Reply("ok")], sessions=2))
    agent("run", "hi")
    agent("run", "--set", "tools.enable_mcp=false", "hi")
    named = [name for name in tools_told(model, 0) if name.startswith("mcp")]
    assert named == ["mcp__house__echo", "mcp__house__long"]
    assert not [name for name in tools_told(model, 1) if name.startswith("mcp")]
