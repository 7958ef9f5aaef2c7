"""Resources of servers in messages, prompts of servers as commands, and /mcp."""

from __future__ import annotations

from tests.mcp.conftest import told
from tests.server import Reply


def test_a_resource_is_read_where_it_is_mentioned(agent, serve, server):
    server("plain")
    model = serve([Reply("ok")])
    run = agent.use(model)("run", "see @plain:notes://today and @nobody:else")
    assert (run.returncode, run.stdout) == (0, "ok\n"), run.stderr
    assert "water the plants (notes://today)" in told(model)
    assert '<tool_result server=\\"plain\\" resource=\\"notes://today\\">' in told(model)


def test_what_is_piped_in_mentions_nothing(agent, serve, server):
    server("plain")
    model = serve([Reply("ok")])
    agent.use(model)("run", "sum up", stdin=b"see @plain:notes://today\n")
    assert "water the plants" not in told(model)


def test_a_prompt_of_a_server_is_a_command(agent, serve, server, talk):
    server("plain")
    model = serve([Reply("Hello Bob Smith.")])
    agent.use(model)
    terminal = talk(columns=100)
    terminal.until("Shift-Tab")
    terminal.type("/mcp\r").until("they start with the first message")
    terminal.type("/mcp__plain__greet\r").until("/mcp__plain__greet needs who")
    terminal.type("/mcp__plain__greet Bob Smith\r").until("Hello Bob Smith.")
    assert "Greet Bob Smith." in told(model)
    terminal.until("done in")
    rows = "\n".join(terminal.type("/mcp\r").until("@plain:notes://today"))
    assert "plain  ready" in rows
    assert "11 tools: echo, long, picture" in rows
    assert "/mcp__plain__greet who" in rows
    terminal.type("/mcp__pl").until("A greeting.")
