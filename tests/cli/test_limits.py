"""What ends a run that would go on: circles, limits on turns, money and time; and going on then."""

from __future__ import annotations

import json
import signal
import threading
from itertools import pairwise

import pytest

from agentcli.events import Source
from agentcli.events.actions import MessageAction
from agentcli.events.observations import AgentStateChangedObservation, CmdOutputObservation
from agentcli.sessions.finder import state_of
from agentcli.sessions.session import read_session
from tests.conftest import LIMIT_S, MODELS
from tests.scripted import bash, call
from tests.server import Call, Hang, HttpError, Paused, Reply, Truncated, Usage

SUMMARY = "Read two files; the fix itself is left to do."


def working(request) -> Reply:
    """A model that always finds another thing to do, and sums up when it may do nothing."""
    if request.body.get("tool_choice") in ("none", {"type": "none"}):
        return Reply(SUMMARY)
    return bash(f"echo {len(request.raw)}")


def events_of(agent) -> list:
    return read_session(agent.sessions[0]).events


def result_of(done) -> dict:
    return json.loads(done.stdout.splitlines()[-1])


LOOPS = {
    "one command": [bash("echo same")],
    "one error": [call("read", path="missing")],
    "two by turns": [bash("echo a"), bash("echo b")],
    "three by turns": [bash("echo a"), bash("echo b"), call("glob", pattern="*")],
    "an edit that is refused": [call("edit", path="x", old_str="a", new_str="b")],
    "words that differ": [
        Reply("Let me look.", [Call("bash", {"command": "ls"})]),
        Reply("Again.", [Call("bash", {"command": "ls"})]),
    ],
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_model_in_a_loop_is_told_and_then_stopped(agent, serve, name):
    loop = LOOPS[name]
    server = agent.asks(serve([*(loop * 12)[:12], Reply("I went another way.")]))
    done = agent("run", "x", "--json")
    assert done.returncode == 1, done.stderr
    assert len(server.requests) <= 12
    result = result_of(done)
    assert (result["status"], result["reason"]) == ("error", "stuck")
    assert "going in circles" in result["error"]["message"]
    nudges = [e for e in events_of(agent) if isinstance(e, MessageAction) and e.nudge]
    assert len(nudges) == 1
    assert nudges[0].content.encode()[:60] in server.requests[-1].raw


def test_after_a_stop_a_person_says_what_to_do_instead(agent, serve):
    agent.use(serve([*[bash("echo same")] * 8, bash("echo same"), Reply("Went another way.")]))
    stopped = agent("run", "x")
    assert stopped.returncode == 1
    assert "stuck" in stopped.stderr
    assert f"agent resume {agent.sessions[0].name}" in stopped.stderr
    done = agent("resume", "--last", "look at the log first")
    assert (done.returncode, done.stdout) == (0, "Went another way.\n"), done.stderr


def test_killed_between_nudge_and_reply_it_is_not_stopped_for_that(agent, serve, tmp_path):
    release = threading.Event()
    server = serve([*[bash("echo same")] * 4, Hang(release), Reply("Went another way.")])
    process = agent.use(server).start("run", "x", "--json")
    seen = ""
    while "may be stuck" not in seen:
        seen = process.stdout.readline().decode()
    process.kill()
    process.wait()
    release.set()
    done = agent("resume", "--last")
    assert (done.returncode, done.stdout) == (0, "Went another way.\n"), done.stderr


@pytest.mark.parametrize("api", MODELS)
def test_the_last_turn_of_a_limit_is_a_summary(agent, serve, api):
    server = agent.asks(serve(play=working), MODELS[api])
    done = agent("run", "x", "--max-turns", "4", "--json")
    assert done.returncode == 6, done.stderr
    assert len(server.requests) == 4
    result = result_of(done)
    assert (result["status"], result["reason"]) == ("paused", "max_turns")
    session = agent.sessions[0].name
    assert f"agent resume {session} --max-turns 8" in result["error"]["hint"]
    tools = [request.body["tools"] for request in server.requests]
    assert tools[-1] == tools[0]
    asked = events_of(agent)[-3]
    assert isinstance(asked, MessageAction)
    assert "limit of 4 model replies" in asked.content
    assert asked.source is Source.ENVIRONMENT
    assert asked.wait_for_response


def test_the_summary_is_what_the_run_prints(agent, serve):
    agent.use(serve(play=working, sessions=2))
    done = agent("run", "x", "--max-turns", "3")
    assert (done.returncode, done.stdout) == (6, f"{SUMMARY}\n")
    again = agent("run", "x", "--max-turns", "3", "--no-summary")
    assert (again.returncode, again.stdout) == (6, "")


def test_raising_the_limit_goes_on_exactly_there(agent, serve):
    server = agent.asks(serve(play=working))
    assert agent("run", "x", "--max-turns", "3").returncode == 6
    assert agent("resume", "--last", "--max-turns", "3").returncode == 6
    assert len(server.requests) == 3, "the same limit is reached without another call"
    assert agent("resume", "--last", "--max-turns", "6").returncode == 6
    assert len(server.requests) == 6
    commands = [e.command for e in events_of(agent) if isinstance(e, CmdOutputObservation)]
    assert len(commands) == len(set(commands)) == 4
    assert b"work on" in server.requests[3].raw
    assert server.prefix_breaks() == []


def test_a_limit_of_one_turn_is_for_work(agent, serve):
    server = serve(play=working)
    assert agent.use(server)("run", "x", "--max-turns", "1").returncode == 6
    assert len(server.requests) == 1
    assert "tool_choice" not in server.requests[0].body


def test_without_a_summary_all_turns_are_for_work(agent, serve):
    agent.use(serve(play=working))
    done = agent("run", "x", "--max-turns", "3", "--set", "agent.summary_at_limit=false")
    assert done.returncode == 6
    assert len([e for e in events_of(agent) if isinstance(e, CmdOutputObservation)]) == 3


def test_calls_in_a_summary_are_not_carried_out(agent, serve):
    calls = [Call("bash", {"command": "touch late"})]
    server = serve([bash("echo 1"), Reply(SUMMARY, calls)])
    done = agent.use(server)("run", "x", "--max-turns", "2")
    assert done.returncode == 6
    assert "ignored" in done.stderr
    assert not (agent.workspace / "late").exists()


@pytest.mark.parametrize("entry", [HttpError(400, "bad", "no"), Reply("")], ids=["error", "empty"])
def test_a_summary_that_fails_changes_nothing(agent, serve, entry):
    agent.use(serve([bash("echo 1"), entry, Reply("Done.")], sessions=2))
    done = agent("run", "x", "--max-turns", "2")
    assert done.returncode == 6, done.stderr
    assert "limit of 2 model replies" in done.stderr
    again = agent("resume", "--last", "--max-turns", "5")
    assert (again.returncode, again.stdout) == (0, "Done.\n"), again.stderr


def test_a_budget_keeps_enough_for_the_summary(agent, serve):
    def play(request):
        reply = working(request)
        usage = Usage(input=len(request.raw), output=200)
        return Reply(reply.text, reply.calls, usage=usage)

    server = agent.asks(serve(play=play))
    config = agent.home / "config.toml"
    config.write_text(f'[prices."{MODELS["chat_completions"]}"]\ninput = 2\noutput = 10\n')
    agent.env["AGENT_CONFIG"] = str(config)
    done = agent("run", "x", "--max-budget-usd", "0.3", "--json")
    assert done.returncode == 6, done.stderr
    assert result_of(done)["reason"] == "max_budget"
    assert state_of(agent.sessions[0]).cost_usd <= 0.3
    assert server.requests[-1].body["tool_choice"] == "none"
    assert SUMMARY in [e.content for e in events_of(agent) if isinstance(e, MessageAction)]
    asked = len(server.requests)
    again = agent("resume", "--last", "--json")
    assert again.returncode == 6
    assert len(server.requests) == asked, "nothing was done since the summary"
    assert agent("resume", "--last", "--max-budget-usd", "0.4").returncode == 6
    assert len(server.requests) > asked + 1


SHORT = ("--set", "agent.max_time_s=2")


def test_a_command_is_stopped_when_the_time_is_over(agent, serve):
    command = "echo begun; sleep 1000"
    server = agent.asks(serve([bash(command), Reply(SUMMARY), Reply("Done.")]))
    done = agent("run", "x", "--json", *SHORT)
    assert done.returncode == 6, done.stderr
    result = result_of(done)
    assert (result["status"], result["reason"]) == ("paused", "max_time")
    assert "agent resume" in result["error"]["hint"]
    output = next(e for e in events_of(agent) if isinstance(e, CmdOutputObservation))
    assert output.content.startswith("begun")
    assert "user" not in output.content
    assert server.requests[-1].body["tool_choice"] == "none"
    again = agent("resume", "--last")
    assert (again.returncode, again.stdout) == (0, "Done.\n"), again.stderr


def test_a_model_call_is_broken_off_when_the_time_is_over(agent, serve):
    never = threading.Event()
    agent.use(serve([Hang(never, headers=False), Hang(never, headers=False), Reply("Done.")]))
    done = agent("run", "x", *SHORT)
    never.set()
    assert done.returncode == 6, done.stderr
    assert "limit of 2 s" in done.stderr
    assert agent("resume", "--last").stdout == "Done.\n"


def test_nothing_is_begun_when_no_time_is_left(agent, serve):
    server = agent.asks(serve([bash("sleep 1000"), Reply("Done.")]))
    done = agent("run", "x", *SHORT, "--set", "agent.summary_at_limit=false")
    assert done.returncode == 6
    assert len(server.requests) == 1


def test_an_interrupt_by_a_person_counts_more_than_the_time(agent, serve):
    release = threading.Event()
    agent.use(serve([Hang(release, headers=False)]))
    process = agent.start("run", "x", "--json", "--set", "agent.max_time_s=60")
    while json.loads(process.stdout.readline())["type"] != "state":
        pass
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=LIMIT_S) == 143
    release.set()


@pytest.mark.parametrize("api", MODELS)
def test_five_replies_in_a_row_that_make_no_sense_are_the_end(agent, serve, api):
    broken = [call("fly", to=number) for number in range(5)]
    server = agent.asks(serve([*broken, Reply("Sorry.")]), MODELS[api])
    done = agent("run", "x", "--json")
    assert done.returncode == 1
    assert result_of(done)["reason"] == "bad_calls"
    assert len(server.requests) == 5
    assert agent("resume", "--last", "use bash").stdout == "Sorry.\n"


def test_a_letter_that_came_before_the_limit_is_delivered(agent, serve):
    asked, release = threading.Event(), threading.Event()

    def second(request):
        asked.set()
        return Paused(release, bash("echo 2"))

    server = serve([bash("echo 1"), second, Reply("Both done.")])
    process = agent.use(server).start(
        "run", "x", "--max-turns", "2", "--set", "agent.summary_at_limit=false"
    )
    assert asked.wait(LIMIT_S)
    agent.ok("tell", agent.sessions[0].name, "and that too", "--steer")
    release.set()
    out, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, out
    assert b"and that too" in server.requests[-1].raw


def test_one_who_tells_a_session_that_nobody_works_on_hears_when_it_is_read(agent, serve):
    agent.use(serve([Reply("Hello."), Reply("Both are done.")]))
    agent("run", "hello", "--name", "first")
    [folder] = agent.sessions
    told = agent("tell", "first", "do both").stdout
    assert told == f"{folder.name} gets this when it is resumed: agent resume {folder.name}\n"
    assert agent("resume", "first").stdout == "Both are done.\n"


@pytest.mark.parametrize(("flags", "request_number"), [(["--steer"], 1), ([], 2)])
def test_a_letter_that_comes_while_a_command_runs(agent, serve, flags, request_number):
    waiting = "touch begun; while ! test -e go; do sleep 0.01; done"
    answers = [Reply("Both done.")] if flags else [Reply("First done."), Reply("Second done.")]
    server = serve([bash(waiting), *answers])
    process = agent.use(server).start("run", "x", "--yolo")
    while not (agent.workspace / "begun").exists():
        assert process.poll() is None
    agent.ok("tell", agent.sessions[0].name, "and that too", *flags)
    (agent.workspace / "go").touch()
    out, _ = process.communicate(timeout=LIMIT_S)
    assert out.decode() == f"{answers[-1].text}\n"
    heard = [b"and that too" in request.raw for request in server.requests]
    assert heard.index(True) == request_number


def test_a_letter_for_after_the_turn_waits_at_a_limit_and_comes_with_the_resume(agent, serve):
    server = agent.asks(serve([bash("echo 1"), Reply("All done.")]))
    flags = ("--max-turns", "1")
    assert agent("run", "x", *flags).returncode == 6
    agent("tell", "--", agent.sessions[0].name, "one more thing")
    done = agent("resume", "--last", *flags)
    assert (done.returncode, done.stdout) == (0, "All done.\n"), done.stderr
    assert b"one more thing" in server.requests[-1].raw


def test_every_change_of_state_is_one_that_the_table_has(agent, serve):
    from agentcli.sessions.state import TRANSITIONS, AgentState

    busy = HttpError(429, "rate_limit_error", "slow down", {"retry-after": "0"})
    agent.use(serve([busy, bash("echo 1"), Reply(SUMMARY), Reply("Done.")]))
    agent("run", "x", "--max-turns", "2")
    agent("resume", "--last", "--max-turns", "9")
    changes = [e for e in events_of(agent) if isinstance(e, AgentStateChangedObservation)]
    states = [AgentState.IDLE, *(AgentState(e.agent_state) for e in changes)]
    assert AgentState.RATE_LIMITED in states
    assert all(b in TRANSITIONS[a] for a, b in pairwise(states))


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
    server = agent.asks(serve([step, step, Reply("Done.", usage=usage)]))
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
    server = agent.asks(serve([Reply("Done.", usage=Usage(input=10, output=10))]))
    priced(agent, MODELS["chat_completions"])
    agent.ok("run", "x", "--max-budget-usd", "0.1")
    request = server.requests[0]
    cap = output_cap(request.body)
    assert 256 <= cap < 16_384
    assert len(request.raw) * 2.5e-6 + cap * 1e-5 <= 0.1


def test_without_a_price_nothing_is_sent_and_nothing_recorded(agent, serve):
    server = agent.asks(serve([]), "openai-chat/unheard-of")
    done = agent("run", "x", "--max-budget-usd", "5")
    assert done.returncode == 3
    assert "the price of openai-chat/unheard-of is unknown" in done.stderr
    assert '[prices."openai-chat/unheard-of"]' in done.stderr
    assert server.requests == []
    assert agent.sessions == []


def test_a_server_that_counts_nothing_is_not_free(agent, serve):
    usage = Usage(input=0, output=0)
    server = agent.asks(
        serve([Reply("", [Call("glob", {"pattern": "*"})], usage=usage)] * 9, sessions=9)
    )
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
    server = agent.asks(serve([broken, Reply("Done.", usage=usage)], sessions=2))
    more = "[llm]\nretry_base_s = 0\n[model]\nmax_output_tokens = 1000"
    priced(agent, MODELS["chat_completions"], more)
    agent.ok("run", "x", "--max-budget-usd", "0.1")
    state = state_of(agent.sessions[0])
    assert 0.01 < state.abandoned_usd < 0.05
    assert state.cost_usd == pytest.approx(0.0021)
    low = f"{state.abandoned_usd + 0.01:.4f}"
    again = agent("resume", "--last", "more", "--max-budget-usd", low)
    assert again.returncode == 6
    assert "on replies that broke off" in again.stderr
    assert len(server.requests) == 2
