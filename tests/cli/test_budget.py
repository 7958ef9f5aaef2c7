"""A budget is never passed, and a run that meets it says so and can go on."""

from __future__ import annotations

import json

import pytest

from agentcli.sessions.finder import state_of
from tests.conftest import MODELS
from tests.server import Call, Reply, Truncated, Usage

CAPS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def priced(agent, model: str, more: str = "") -> None:
    config = agent.home / "config.toml"
    config.write_text(f'{more}\n[prices."{model}"]\ninput = 2\noutput = 10\ncache_write = 2.5\n')
    agent.env["AGENT_CONFIG"] = str(config)


def output_cap(body: dict) -> int:
    return next(body[name] for name in CAPS if name in body)


def greedy(request):
    """A model that never ends and uses all it may: each byte a token, the whole output."""
    usage = Usage(input=len(request.raw), output=output_cap(request.body))
    return Reply("", [Call("glob", {"pattern": "*"})], usage=usage)


@pytest.mark.parametrize("api", MODELS)
def test_the_dearest_of_servers_is_stopped_in_time(agent, serve, api):
    agent.use(serve(play=greedy), MODELS[api])
    priced(agent, MODELS[api])
    done = agent("run", "work for ever", "--max-budget-usd", "0.3", "--json")
    assert done.returncode == 6, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["status"], result["reason"]) == ("paused", "max_budget")
    assert 0.2 < result["cost_usd"] <= 0.3
    assert "of the budget of $0.3 is spent; the next call" in result["error"]["message"]
    assert result["resume_command"] in result["error"]["hint"]


def test_a_session_keeps_its_budget_until_it_is_raised(agent, serve):
    usage = Usage(input=10_000, output=100)
    step = Reply("", [Call("glob", {"pattern": "*"})], usage=usage)
    server = serve([step, step, Reply("Done.", usage=usage)])
    agent.use(server)
    priced(agent, MODELS["chat_completions"])
    first = agent("run", "three steps", "--max-budget-usd", "0.06")
    assert first.returncode == 6, first.stderr
    assert "paused (max budget)" in first.stderr
    assert len(server.requests) == 2
    again = agent("resume", "--last")
    assert again.returncode == 6
    assert len(server.requests) == 2
    done = agent("resume", "--last", "--max-budget-usd", "1")
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert state_of(agent.sessions[0]).cost_usd == pytest.approx(0.063)


def test_the_output_asked_for_is_what_is_left(agent, serve):
    server = serve([Reply("Done.", usage=Usage(input=10, output=10))])
    agent.use(server)
    priced(agent, MODELS["chat_completions"])
    assert agent("run", "x", "--max-budget-usd", "0.1").returncode == 0
    request = server.requests[0]
    cap = output_cap(request.body)
    assert 256 <= cap < 16_384
    assert len(request.raw) * 2.5e-6 + cap * 1e-5 <= 0.1


def test_without_a_price_nothing_is_sent_and_nothing_recorded(agent, serve):
    server = serve([])
    agent.use(server, "openai-chat/unheard-of")
    done = agent("run", "x", "--max-budget-usd", "5")
    assert done.returncode == 3
    assert "the price of openai-chat/unheard-of is unknown" in done.stderr
    assert '[prices."openai-chat/unheard-of"]' in done.stderr
    assert server.requests == []
    assert agent.sessions == []


def test_a_server_that_counts_nothing_is_not_free(agent, serve):
    usage = Usage(input=0, output=0)
    server = serve([Reply("", [Call("glob", {"pattern": "*"})], usage=usage)] * 9, sessions=9)
    agent.use(server)
    priced(agent, MODELS["chat_completions"])
    assert agent("run", "x", "--max-budget-usd", "0.1").returncode == 6
    assert 0 < len(server.requests) < 4


@pytest.mark.parametrize(
    ("project", "code"), [(0.001, 6), (50, 0)], ids=["lowers", "may not raise"]
)
def test_a_project_may_lower_the_budget_only(agent, serve, project, code):
    agent.use(serve([Reply("Done.", usage=Usage(input=10, output=10))] if not code else []))
    priced(agent, MODELS["chat_completions"], "[agent]\nmax_budget_usd = 0.5")
    (agent.workspace / ".agent").mkdir()
    (agent.workspace / ".agent" / "config.toml").write_text(f"[agent]\nmax_budget_usd = {project}")
    done = agent("run", "x")
    assert done.returncode == code, done.stderr
    assert ("is not trusted" in done.stderr) == (project == 50)


def test_cost_by_model_and_part(agent, serve):
    from agentcli.cli.sessions.rows import costs, table

    usage = Usage(input=10_000, output=500, cached=5_000, reasoning=120)
    agent.use(serve([Reply("one", usage=usage), Reply("two", usage=usage)], sessions=2))
    priced(agent, MODELS["chat_completions"])
    agent("run", "x")
    agent("resume", "--last", "more", "-m", "openai-chat/unheard-of")
    state = state_of(agent.sessions[0])
    told = costs(agent.sessions[0], state)
    rows = told["rows"]
    assert [(row["model"], row["part"], row["replies"]) for row in rows] == [
        ("openai-chat/gpt-5.5", "main", 1),
        ("openai-chat/unheard-of", "main", 1),
    ]
    assert rows[0]["cached_share"] == 0.5
    assert rows[0]["cost_usd"] == pytest.approx(0.025)
    assert told["total"]["cost_usd"] is None
    lines = table(told)
    assert max(map(len, lines)) <= 80
    assert lines[1].split() == ["openai-chat/gpt-5.5", "1", "10k", "(50%)", "500", "120", "$0.03"]
    assert lines[-1].split()[-2:] == ["price", "unknown"]


def test_replies_that_broke_off_count_for_the_resumed_session_too(agent, serve):
    usage = Usage(input=1_000, output=10)
    broken = Truncated(Reply("Half of", usage=usage))
    server = serve([broken, Reply("Done.", usage=usage)], sessions=2)
    agent.use(server)
    more = "[llm]\nretry_base_s = 0\n[model]\nmax_output_tokens = 1000"
    priced(agent, MODELS["chat_completions"], more)
    assert agent("run", "x", "--max-budget-usd", "0.1").returncode == 0
    state = state_of(agent.sessions[0])
    assert 0.01 < state.abandoned_usd < 0.05
    assert state.cost_usd == pytest.approx(0.0021)
    low = f"{state.abandoned_usd + 0.01:.4f}"
    again = agent("resume", "--last", "more", "--max-budget-usd", low)
    assert again.returncode == 6
    assert "on replies that broke off" in again.stderr
    assert len(server.requests) == 2
