"""Choosing the session to go on with, by name, by newness or from the list at a terminal."""

from __future__ import annotations

import json
import re
import shutil
import signal

import pexpect
import pytest

from agentcli.sessions.finder import state_of
from tests.cli.test_run import wait_for
from tests.conftest import LIMIT_S
from tests.emulated import Emulated
from tests.scripted import bash
from tests.server import Call, Reply

LIST = "Esc leaves"
BUSY = "echo > begun.tmp; mv begun.tmp begun; sleep 1000"


def ended(child: pexpect.spawn) -> str:
    """What was shown until the end, without colours; the exit code is in `child.exitstatus`."""
    child.expect(pexpect.EOF)
    child.close()
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", child.before)


@pytest.fixture
def three(agent, serve):
    """Sessions `fix the test`, `write docs` (named docs) and `what is this`, and more replies."""
    answers = ["one", "two", "three", "went on", "went on again"]
    # Every change to another session begins the requests anew.
    server = agent.asks(serve([Reply(text) for text in answers], sessions=5))
    for task, *flags in (["fix the test"], ["write docs", "--name", "docs"], ["what is this"]):
        agent.ok("run", task, *flags)
    return server


def id_of(agent, task: str) -> str:
    return next(folder.name for folder in agent.sessions if state_of(folder).title == task)


def asked(server) -> str:
    """The first and the last message of the newest request."""
    messages = [m["content"] for m in server.requests[-1].body["messages"] if m["role"] == "user"]
    return json.dumps([messages[0], messages[-1]])


@pytest.mark.parametrize(
    ("way", "task"),
    [
        (["resume", "docs", "more"], "write docs"),
        (["resume", "--last", "more"], "what is this"),
        (["resume", "-c", "more"], "what is this"),
        (["resume", "--continue", "--all", "more", "-C", "."], "what is this"),
        (["run", "-c", "more"], "what is this"),
        (["run", "--continue", "more"], "what is this"),
        (["run", "-r", "docs", "more"], "write docs"),
        (["run", "--resume", "docs", "more"], "write docs"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_ways_to_say_which_session(agent, three, way, task):
    done = agent(*way)
    assert done.stdout == "went on\n", done.stderr
    assert task in asked(three)
    assert "more" in asked(three)
    assert len(agent.sessions) == 3


def test_the_session_used_last_is_the_newest(agent, three):
    agent("resume", "docs", "more")
    agent("resume", "--last", "and more")
    assert "write docs" in asked(three)


@pytest.mark.parametrize(
    ("way", "told"),
    [
        (["resume"], ["which session?", "agent resume --last"]),
        (["resume", "dics"], ["no session 'dics'", "did you mean docs?"]),
        (["resume", "fix it"], ["no session 'fix it'", "agent resume --last 'fix it'"]),
        (["resume", "fix the tests"], ["did you mean 20", "(fix the test)?"]),
        (["resume", "--last", "docs", "more"], ["'docs' or the newest one?"]),
        (["resume", "--all", "docs"], ["'docs' or --all?"]),
        (["resume", ""], ["no session ''"]),
        (["run", "-r", "", "more"], ["no session ''"]),
        (["run", "-c", "-r", "docs", "more"], ["'docs' or the newest one?"]),
        (["run", "-c", "--name", "x", "more"], ["--name is for a new session"]),
        (["resume", "--last", "-C", "/"], ["no session in / yet", "agent resume --all"]),
    ],
    ids=lambda value: " ".join(value) if value[0] in ("run", "resume") else "",
)
def test_what_is_no_session_is_answered_with_what_may_have_been_meant(agent, three, way, told):
    done = agent(*way)
    assert done.returncode == 2
    for words in told:
        assert words in done.stderr
    assert len(agent.sessions) == 3
    assert len(three.requests) == 3


def test_a_folder_that_is_gone_is_named(agent, serve, tmp_path):
    agent.use(serve([Reply("one"), Reply("two")]))
    agent("run", "start", "--name", "mine")
    shutil.rmtree(agent.workspace)
    done = agent("resume", "mine", "more", cwd=tmp_path)
    assert done.returncode == 3
    assert f"worked in {agent.workspace}, which is no longer there" in done.stderr
    assert "-C DIR" in done.stderr
    (elsewhere := tmp_path / "elsewhere").mkdir()
    done = agent("resume", "mine", "more", "-C", ".", cwd=elsewhere)
    assert done.stdout == "two\n", done.stderr


def test_in_a_log_file_one_line_says_where_things_stand(agent, three):
    done = agent("resume", "docs", "more")
    first = done.stderr.splitlines()[0]
    assert re.fullmatch(
        rf"resuming {id_of(agent, 'write docs')} \(finished, 1 step, \$[\d.]+\): write docs", first
    )
    quiet = agent("resume", "docs", "still more", "-q")
    assert (quiet.stdout, quiet.stderr) == ("went on again\n", "")


def test_verbose_says_it_all_in_a_log_file_too_and_json_stays_json(agent, three):
    done = agent("resume", "docs", "more", "-v", "--json")
    assert "> write docs" in done.stderr
    assert "finished just now" in done.stderr
    assert "\x1b" not in done.stderr
    assert {json.loads(line)["type"] for line in done.stdout.splitlines()} >= {"init", "result"}


@pytest.fixture
def list_of(talk):
    """The list of `agent ARGUMENTS` in an emulated terminal."""

    def start(*arguments: str, **size: int) -> Emulated:
        terminal = talk(*arguments, **size)
        terminal.until(LIST)
        return terminal

    return start


def marked(task: str):
    return lambda rows: any(row.startswith("> ") and row.endswith(task) for row in rows)


def test_one_moves_searches_and_says_what_comes_next(agent, three, list_of):
    terminal = list_of("resume")
    for keys, task in (
        ("", "what is this"),
        ("\x1b[B\x1b[B", "fix the test"),
        ("\x1b[A", "docs: write docs"),
        ("\x0e", "fix the test"),
        ("\x10", "docs: write docs"),
        ("\x1b[6~", "fix the test"),
        ("wrt", "docs: write docs"),
        ("\x15fix", "fix the test"),
        ("\x7f\x7f\x7f\x1b[200~do\ncs\x1b[201~", "docs: write docs"),
    ):
        terminal.type(keys).until(marked(task))
    terminal.type("\r").until("say what comes next")
    # A session that is done goes on with a message only; Esc leads back to the list.
    terminal.type("\r\x1b").until("type to search")
    terminal.type("\rmore, \x1b\rplease").until("Enter sends that and resumes it")
    assert terminal.type("\r").ended() == 0
    assert "went on" in "\n".join(terminal.rows)
    assert "more, \\nplease" in asked(three)
    assert "write docs" in asked(three)


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_list_takes_the_whole_screen_and_shows_what_was_said_last(
    agent, three, list_of, columns
):
    terminal = list_of("resume", "--all", columns=columns)
    terminal.type("docs").until(marked(""))
    terminal.until("agent  two")
    rows = terminal.until("1 of 1 · ")
    assert rows[0] == "resume which session? docs"
    assert rows[14] == "─" * (columns - 1)
    assert rows[15].startswith("docs · /")
    assert rows[16:18] == ["you    write docs", "agent  two"]
    assert rows[18:-1] == [""] * 5
    terminal.resize(columns, 12)
    small = terminal.until(lambda rows: rows[0] == "resume which session? docs")
    assert small[1].startswith("> ")
    assert small[2:-1] == [""] * 9
    assert terminal.type("\x03").ended() == 130
    # The alternate screen: what was there before is there again.
    assert terminal.raw.count(b"\x1b[?1049h") == terminal.raw.count(b"\x1b[?1049l") == 1


@pytest.mark.parametrize("no_color", ["", "1"])
def test_the_list_has_colours_unless_they_are_not_wanted(agent, three, at_terminal, no_color):
    child = at_terminal("resume", columns=120, **({"NO_COLOR": no_color} if no_color else {}))
    child.expect(LIST)
    assert bool(re.search(r"\x1b\[(?:\d+;)*3[0-7]m", child.before)) is not bool(no_color)


def test_an_interrupted_session_is_picked_and_says_where_it_stands(agent, serve, list_of):
    script = [Reply("I **look** first.", [Call("bash", {"command": BUSY})]), Reply("Went on.")]
    server = serve(script)
    process = agent.use(server).start("run", "fix the test")
    wait_for(agent.workspace / "begun", process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    terminal = list_of("resume", "--all", columns=120, rows=40)
    terminal.until("interrupted")
    terminal.type("\r").until("Enter resumes it")
    assert terminal.type("\r").ended() == 0
    shown = "\n".join(terminal.rows)
    where, _, after = shown.partition("resumed 20")
    assert "interrupted just now while running: $ echo > begun.tmp" in where
    assert "> fix the test" in where
    assert "I look first." in where
    assert "effect unknown" in where
    assert "Went on." in after


def test_a_session_in_use_is_marked_and_its_holder_named(agent, serve, list_of):
    server = serve([bash(BUSY)])
    process = agent.use(server).start("run", "x")
    wait_for(agent.workspace / "begun", process)
    terminal = list_of("resume")
    terminal.until(f"in use by {process.pid}")
    terminal.type("\r").until("Enter resumes it")
    assert terminal.type("\r").ended() == 2
    assert f"is in use by process {process.pid} on" in "".join(terminal.rows)
    process.send_signal(signal.SIGTERM)
    process.communicate()


@pytest.mark.parametrize(
    ("key", "code", "told"),
    [("\x1b", 2, "nothing chosen"), ("\x04", 2, "nothing chosen"), ("\x03", 130, "interrupted")],
    ids=["Esc", "Ctrl-D", "Ctrl-C"],
)
def test_leaving_the_list(agent, three, at_terminal, key, code, told):
    child = at_terminal("resume")
    child.expect(LIST)
    child.send(key)
    assert told in ended(child)
    assert child.exitstatus == code
    assert len(three.requests) == 3


def test_a_terminal_that_cannot_be_drawn_on(agent, three, at_terminal):
    child = at_terminal("resume", TERM="dumb")
    child.expect(r"2 .*docs: write docs")
    child.expect("1-3: ")
    child.sendline("7")
    child.expect("1-3: ")
    child.sendline("2")
    child.expect("next message: ")
    child.sendline("more")
    assert "went on" in ended(child)
    assert "write docs" in asked(three)
    child = at_terminal("resume", TERM="dumb")
    child.expect("1-3: ")
    child.sendintr()
    ended(child)
    assert child.exitstatus == 130


def test_the_list_never_writes_to_stdout(agent, three, tmp_path):
    out = tmp_path / "out"
    command = " ".join([*agent.command, "resume", ">", str(out)])
    child = pexpect.spawn(
        "/bin/sh",
        ["-c", command],
        cwd=str(agent.workspace),
        env={**agent.environment, "TERM": "xterm-256color"},
        timeout=LIMIT_S,
        encoding="utf-8",
    )
    child.expect(LIST)
    child.send("\x1b")
    ended(child)
    assert out.read_text() == ""


def test_there_is_nothing_to_choose_from(agent, at_terminal):
    child = at_terminal("resume")
    shown = ended(child)
    assert child.exitstatus == 2
    assert "there is no session in" in shown
    assert "agent resume --all" in shown


def test_one_goes_back_to_before_a_message_and_says_it_in_other_words(agent, three, list_of):
    agent("resume", "docs", "and the examples")
    terminal = list_of("rewind", "docs")
    rows = terminal.until("rewind to before which message?")
    assert rows[1].endswith("1 step since  and the examples")
    assert rows[2].endswith("2 steps since  the task: write docs")
    terminal.type("\r").until("next message: and the examples")
    assert terminal.type("\x15without examples\r").ended() == 0
    assert "went on again" in "\n".join(terminal.rows)
    assert "and the examples" not in three.requests[-1].raw.decode()
    assert "without examples" in asked(three)


def test_a_fork_goes_on_from_a_message_or_from_the_end(agent, three, list_of):
    terminal = list_of("fork", "docs")
    assert terminal.until("fork from where?")[1].endswith("all of it, as it is now")
    terminal.type("\r").until("Enter forks")
    assert terminal.type("\r").ended() == 0
    assert "agent resume 20" in "\n".join(terminal.rows)
    assert len(agent.sessions) == 4
    terminal = list_of("fork", "docs")
    terminal.type("\x1b[B\rin another way\r")
    assert terminal.ended() == 0
    assert len(agent.sessions) == 5
    assert "in another way" in asked(three)
    assert "two" not in [message.get("content") for message in three.requests[-1].body["messages"]]


def test_an_error_is_broken_between_words_at_a_terminal_and_whole_in_a_log(agent, talk):
    terminal = talk("sessions", "show", columns=60)
    assert terminal.ended() == 2
    assert [row for row in terminal.rows if row][-2:] == [
        "  those of other folders: agent resume --all, agent",
        "  sessions list --all",
    ]
    assert agent("sessions", "show").stderr.count("\n") == 2
