"""Slash commands of a conversation, typed at the prompt of a terminal."""

from __future__ import annotations

import json

import pytest

from agentcli.sessions.session import read_session
from tests.cli.test_conversation import CTRL_D, ESC, READY, running, said
from tests.conftest import MODELS
from tests.server import Call, Reply


def writes(path: str, text: str) -> Reply:
    return Reply("", [Call("write", {"path": path, "content": text})])


def counted(text: str, times: int):
    return lambda rows: sum(text in row for row in rows) == times


def facts(rows) -> str:
    """The line below the prompt."""
    return next((row for row in reversed(rows) if "Shift-Tab" in row), "")


@pytest.fixture
def ask(talk):
    """A conversation in which commands are typed and entered as a person does, after what they
    show was read."""

    def start(*arguments: str, **options):
        terminal = talk(*arguments, **options)
        terminal.until(READY)

        def enter(text: str, seen) -> list[str]:
            terminal.type(text).until(lambda rows: any(row.endswith(text) for row in rows))
            return terminal.type("\r").until(seen)

        return terminal, enter

    return start


def test_the_model_is_changed_on_the_way_and_knows_all_that_was_said(agent, serve, ask):
    """From one protocol to the next, each of which refuses what it would not take."""
    answers = ["By chat.", "By messages.", "By responses."]
    script = [reply for text in answers for reply in (writes(text, "1\n"), Reply(text))]
    server = serve(script, sessions=3)
    agent.use(server)
    terminal, enter = ask("first task", columns=120, rows=40)
    terminal.until("done in")
    for wire, words in (("anthropic_messages", "By messages."), ("responses", "By responses.")):
        enter(f"/model {MODELS[wire]}", f"from here on {MODELS[wire]} answers")
        enter(f"next by {wire}", counted(words, 2))
        terminal.until(lambda rows, name=MODELS[wire]: facts(rows).startswith(f"  {name} ·"))
    apis = [request.api for request in server.requests]
    assert apis == [
        a for a in ("chat_completions", "anthropic_messages", "responses") for _ in "12"
    ]
    asked = json.dumps(server.requests[-1].body)
    assert all(
        text in asked for text in ("first task", "By chat.", "By messages.", "next by responses")
    )
    assert read_session(agent.sessions[0]).state.model == MODELS["responses"]


def test_a_model_is_chosen_from_the_list_before_anything_is_said(agent, serve, ask):
    server = serve([Reply("Hello.")], models=["gpt-5.5", "gpt-5.4-mini"])
    agent.use(server)
    terminal, enter = ask()
    enter("/model", "which model?")
    terminal.type("openai/ mini").until("1 of 1")
    terminal.type("\r").until("openai/gpt-5.4-mini will answer")
    enter("hi", "Hello.")
    assert server.requests[-1].body["model"] == "gpt-5.4-mini"
    enter("/model nonesuch", "there is no model 'nonesuch'")
    enter("/effort high", "effort: high")
    assert "openai/gpt-5.4-mini" in "\n".join(terminal.rows[-6:])


def test_files_are_undone_and_the_undo_is_undone(agent, serve, ask):
    server = serve([writes("a", "1\n"), writes("b", "2\n"), Reply("Both."), Reply("I see.")])
    agent.use(server)
    terminal, enter = ask("write both", rows=40)
    terminal.until("done in")
    enter("/diff 1", "+++ b/b")
    [way_back] = [row for row in enter("/undo", "to take that back") if "take that back" in row]
    assert [p.name for p in sorted(agent.workspace.iterdir())] == ["a"]
    enter(way_back.partition("back: ")[2], counted("now at event", 2))
    assert (agent.workspace / "b").read_text() == "2\n"
    enter("/undo 2", counted("now at event", 3))
    assert list(agent.workspace.iterdir()) == []
    enter("/undo", "changed no files")
    enter("what now?", "I see.")
    assert "undid your last 2 steps" in json.dumps(server.requests[-1].body)


def test_going_back_brings_the_message_into_the_line(agent, serve, ask):
    server = serve(
        [Reply("Hello."), writes("a", "1\n"), Reply("Written."), Reply("Otherwise.")], sessions=2
    )
    agent.use(server)
    terminal, enter = ask("say hello", rows=40)
    terminal.until("done in")
    enter("write a file", counted("done in", 2))
    terminal.type(ESC + ESC).until("rewind to before which message?")
    terminal.type("\r").until("rewind what?")
    terminal.type("\r").until("- a")
    terminal.until(lambda rows: "> write a file" in rows)
    assert not (agent.workspace / "a").exists()
    terminal.type(" no more").until("> write a file no more")
    terminal.type("\r").until("Otherwise.")
    assert "write a file no more" in said(server).split("\n")
    assert "write a file" not in said(server).split("\n")


def test_going_back_before_the_task_begins_anew(agent, serve, ask):
    agent.use(serve([writes("a", "1\n"), Reply("Written."), Reply("Better.")], sessions=2))
    terminal, enter = ask("the wrong task", rows=40)
    terminal.until("done in")
    enter("/rewind", "rewind to before which message?")
    terminal.type("\r").until("rewind what?")
    terminal.type("\r").until("a new session begins")
    terminal.until(lambda rows: "> the wrong task" in rows)
    terminal.type("\x15the right task").until("> the right task")
    terminal.type("\r").until("Better.")
    assert not (agent.workspace / "a").exists()
    assert len(agent.sessions) == 2


def test_a_copy_is_worked_on_and_the_original_resumed(agent, serve, ask):
    answers = [writes("a", "1\n"), Reply("Written."), writes("a", "2\n"), Reply("In the copy.")]
    server = serve([*answers, Reply("In the original.")], sessions=3)
    agent.use(server)
    terminal, enter = ask("write a", rows=40)
    terminal.until("done in")
    enter("/fork", "fork from where?")
    terminal.type("\r").until("next message:")
    terminal.type("otherwise\r").until("In the copy.")
    assert (agent.workspace / "a").read_text() == "1\n"
    [copy] = agent.workspace.parent.glob("work-fork-*")
    assert (copy / "a").read_text() == "2\n"
    [back] = [row for row in terminal.rows if "to go on with the original: " in row]
    enter(back.partition("original: ")[2], "waits for you")
    enter("and here?", "In the original.")
    assert "otherwise" not in json.dumps(server.requests[-1].body)


def test_another_session_is_chosen_and_gone_on_with(agent, serve, ask):
    agent.use(serve([Reply("One."), Reply("Two."), Reply("One again.")], sessions=3))
    terminal, enter = ask("first task", rows=40)
    terminal.until("done in")
    enter("/new second task", "Two.")
    enter("/resume", "resume which session?")
    assert not any("second task" in row for row in terminal.rows), "it is the one that is open"
    terminal.type("\r").until("next message:")
    terminal.type("\r").until(lambda rows: "waits for you just now" in rows)
    enter("go on", "One again.")
    assert len(agent.sessions) == 2


def test_rules_are_shown_with_where_they_come_from_and_removed(agent, serve, ask):
    config = agent.home / ".config" / "agent"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('[security]\ndeny = ["bash(rm:*)"]\n')
    (config / "rules").write_text(
        f"allow bash(touch:*) in {agent.workspace}\nallow bash(make) in /elsewhere\n"
    )
    wants = {"command": "touch fetched", "network": True, "reason": "to fetch"}
    agent.use(serve([Reply("", [Call("bash", wants)]), Reply("Fetched.")] * 2))
    terminal, enter = ask("fetch it", columns=120, rows=40)
    terminal.until("done in")
    rows = "\n".join(enter("/permissions", "/permissions remove"))
    assert "deny   bash(rm:*)" in rows
    assert str(config / "config.toml") in rows.replace("\n", "")
    assert "allow  bash(touch:*)  saved here" in rows
    assert "make" not in rows
    enter("/permissions remove bash(touch:*)", "removed: bash(touch:*)")
    assert (config / "rules").read_text() == "allow bash(make) in /elsewhere\n"
    terminal.type("again\r").until("yes, once")
    terminal.type("n").until(counted("done in", 2))
    enter("/permissions plan", "plan: reads, changes nothing")


def test_what_shows_only_is_shown_while_it_works(agent, serve, ask):
    agent.use(serve([running(), Reply("Over.")]))
    terminal, enter = ask("wait for it", "--yolo", rows=60)
    terminal.until("while [ ! -e go ]")
    enter("/status", "at work")
    enter("/cost", "openai-chat/gpt-5.5")
    enter("/context", "The biggest parts:")
    enter("/diff", "nothing was changed")
    enter("/undo", "after the turn: /undo")
    enter("/nope", "there is no command /nope")
    enter("/resume", "after the turn: /resume")
    (agent.workspace / "go").touch()
    terminal.until("to take that back")
    terminal.until("there is no other session here")
    terminal.type(CTRL_D)
    assert terminal.ended() == 0


def test_plan_mode_holds_from_the_next_action_on_and_leaving_it_ends_no_job(agent, serve, ask):
    job = Reply("", [Call("bash", {"command": "sleep 1000", "background": True})])
    script = [job, running(), writes("a", "1\n"), Reply("Not written."), Reply("Planned.")]
    agent.use(serve([*script, Reply("Written.")]))
    terminal, enter = ask("write a", rows=60)
    terminal.until("while [ ! -e go ]")
    enter("/permissions plan", "plan: reads, changes nothing")
    (agent.workspace / "go").touch()
    terminal.until("done in")
    assert not (agent.workspace / "a").exists()
    enter("/permissions ask", "neither the sandbox nor")
    enter("/status", "job-1")
    enter("/permissions plan", counted("plan: reads, changes nothing", 2))
    enter("plan it", "1 command in the background ended")
    terminal.until("Planned.")


def test_older_work_is_summed_up_with_what_it_must_keep(agent, serve, ask):
    steps = [Reply(f"Step {n}.", [Call("bash", {"command": f"seq {n} 400"})]) for n in range(4)]
    script = [*steps, Reply("Counted."), Reply("## Done\n1. counted to 400"), Reply("More.")]
    server = serve(script, sessions=3)
    agent.use(server)
    terminal, enter = ask("count them", rows=60)
    terminal.until("done in")
    enter("/compact the number 400", "out of the model's sight")
    assert "the number 400" in json.dumps(server.requests[-1].body)
    enter("and now?", "More.")
    asked = json.dumps(server.requests[-1].body)
    assert "counted to 400" in asked
    assert "Step 0." not in asked
