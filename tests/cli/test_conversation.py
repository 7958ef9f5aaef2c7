"""A conversation at a terminal, on the screen of a terminal emulator."""

from __future__ import annotations

import base64
import os
import re
import signal
import threading

import pytest

from agentcli.cli.conversation.control import ConversationControl
from agentcli.ui.prompt.control import Submission
from tests.emulated import Emulated
from tests.scripted import write
from tests.server import Call, Paused, Reply
from tests.server.samples import PNG

READY = "Shift-Tab"
"""In the line of facts once all is loaded."""
ESC, CTRL_B, CTRL_C, CTRL_D, CTRL_O, SHIFT_TAB = "\x1b", "\x02", "\x03", "\x04", "\x0f", "\x1b[Z"


def said(server) -> str:
    """What the person said, as the last request has it."""
    messages = server.requests[-1].body["messages"]
    parts = (message["content"] for message in messages if message["role"] == "user")
    texts = (
        [part] if isinstance(part, str) else [p.get("text", "") for p in part] for part in parts
    )
    return "\n".join(text for some in texts for text in some)


def after(row: str):
    """That the prompt is back below this row."""
    return lambda rows: row in rows and ">" in rows[rows.index(row) :]


def ready(talk, *arguments: str) -> Emulated:
    terminal = talk(*arguments)
    terminal.until(READY)
    return terminal


def at_work(talk) -> Emulated:
    """A conversation in which `running()` runs."""
    terminal = talk("wait for it", "--yolo")
    terminal.until("while [ ! -e go ]")
    return terminal


def running(command: str = "while [ ! -e go ]; do sleep 0.02; done") -> Reply:
    return Reply("", [Call("bash", {"command": command})])


@pytest.mark.parametrize(("columns", "plain"), [(60, True), (80, False), (120, True)])
def test_one_message_after_another(agent, serve, talk, columns, plain):
    server = agent.asks(serve([Reply("Hello, **you**."), Reply("Second answer.")]))
    terminal = talk(columns=columns, **({"NO_COLOR": "1"} if plain else {}))
    terminal.until(READY)
    terminal.type("first thing\r").until("Hello, you.")
    rows = terminal.until("done in")
    assert rows.count("> first thing") == 1
    terminal.type("second thing\r").until("Second answer.")
    assert len(server.requests) == 2
    terminal.until(lambda rows: sum("done in" in row for row in rows) == 2)
    terminal.type(CTRL_D)
    assert terminal.ended() == 0
    assert "to go on: agent -r" in "\n".join(terminal.rows)
    if plain:
        assert not re.search(rb"\x1b\[(?:[0-9;]*;)?(?:3[0-7]|9[0-7])[0-9;]*m", terminal.raw)


def test_a_task_begins_it_and_it_goes_on_later(agent, serve, talk):
    agent.use(serve([Reply("Did the first."), Reply("Did the second.")]))
    first = talk("do the first")
    first.until("Did the first.")
    first.until("done in")
    first.type(CTRL_D)
    assert first.ended() == 0
    later = talk("-c")
    later.until("do the first")
    later.until(READY)
    later.type("and the second\r").until("Did the second.")


def test_a_line_that_was_typed_before_there_was_a_prompt_is_a_message(agent, serve, tmp_path):
    agent.use(serve([Reply("Heard.")]))
    typed = tmp_path / "typed"
    os.mkfifo(typed)
    begin = ["sh", "-c", 'read x < "$0"; exec "$@"', str(typed), *agent.command]
    terminal = Emulated(begin, agent.workspace, agent.environment)
    terminal.type("too early\r").until("too early")
    typed.write_text("it was typed\n")
    terminal.until("Heard.")
    terminal.close()


def test_what_is_typed_while_it_works_is_heard_at_the_next_step_or_after_the_turn(
    agent, serve, talk
):
    server = agent.asks(serve([running(), Reply("All heard."), Reply("And that too.")]))
    terminal = at_work(talk)
    terminal.type("steer left\r").until("next: steer left")
    terminal.type("then tidy up\t").until("after the turn: then tidy up")
    (agent.workspace / "go").touch()
    terminal.until("And that too.")
    second, third = server.requests[1].body["messages"], server.requests[2].body["messages"]
    assert "steer left" in str(second)
    assert "tidy" not in str(second)
    assert "then tidy up" in str(third)
    assert not any("next:" in row or "turn:" in row for row in terminal.until("done in"))


def test_a_queued_message_is_taken_back_and_edited(agent, serve, talk):
    server = agent.asks(serve([running(), Reply("Heard."), Reply("Heard too.")]))
    terminal = at_work(talk)
    terminal.type("left\r").until("next: left")
    terminal.type("\x1b[A").until("> left")
    terminal.type(" and up\r").until("next: left and up")
    (agent.workspace / "go").touch()
    terminal.until("done in")
    assert said(server).count("left") == 1


def test_an_image_is_taken_back_with_its_message(agent, serve, talk):
    server = agent.asks(serve([running(), Reply("A dot.")]))
    picture = agent.workspace / "dot.png"
    picture.write_bytes(base64.b64decode(PNG))
    terminal = at_work(talk)
    terminal.type(f"see \x1b[200~{picture}\x1b[201~").until("> see [image #1: dot.png]")
    terminal.type("\r").until("next: see")
    terminal.type("\x1b[A").until("> see [image #1: dot.png]")
    terminal.type(" now\r").until("next: see [image #1: dot.png] now")
    (agent.workspace / "go").touch()
    terminal.until("A dot.")
    assert PNG in str(server.requests[1].body["messages"])


def test_what_is_said_just_before_a_turn_begins_waits_as_what_is_said_in_it():
    control = ConversationControl()
    control.waiting.mailbox = Box()
    for text in ("this too", "/cost"):
        control.submit(Submission(text))
    control.begin_work()
    assert [each.text for each in control.queued()] == ["this too", "/cost"]
    assert control.inputs.empty()


@pytest.mark.parametrize("said", ["before", "after"])
def test_an_interrupt_holds_what_waited_until_the_user_says_something(said, monkeypatch):
    monkeypatch.setattr(os, "kill", lambda process, number: None)
    control = ConversationControl()
    control.waiting.mailbox = Box()
    control.begin_work()
    if said == "before":
        control.submit(Submission("do it"))
    control.interrupt()
    if said == "after":
        control.submit(Submission("do something else"))
        control.submit(Submission(""))
    control.end_work()
    control.tick()
    assert control.held == (said == "before")
    assert control.inputs.empty() == (said == "before")


class Box(dict[str, str]):
    """A mailbox that nobody empties."""

    def put(self, submission: Submission) -> str:
        self[submission.text] = submission.text
        return submission.text

    def remove(self, message_id: str) -> None:
        del self[message_id]

    def texts(self) -> dict[str, str]:
        return self


@pytest.mark.parametrize("key", [ESC, CTRL_C])
def test_interrupting_leaves_the_conversation_open(agent, serve, talk, key):
    server = agent.asks(serve([running(), Reply("Something else then.")]))
    terminal = at_work(talk)
    terminal.type(key).until("interrupted after")
    terminal.type("do something else\r").until("Something else then.")
    assert "interrupted by the user" in str(server.requests[1].body)


def test_a_reply_that_streams_is_interrupted_and_no_command_for_ctrl_b(agent, serve, talk):
    hold = threading.Event()
    agent.use(serve([Paused(hold, Reply("One two three four five."), after=2), Reply("Again.")]))
    terminal = talk("speak to me")
    terminal.until("One")
    terminal.type(CTRL_B).until("no command is running")
    terminal.type(ESC).until("interrupted after")
    hold.set()
    terminal.type("again\r").until("Again.")


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.campaign
def test_a_table_that_streams_is_there_once_though_the_window_changed(agent, serve, talk, columns):
    hold = threading.Event()
    table = "| name | size |\n|---|---|\n| first | 1 |\n| two | 2 |\n| three | 3 |\n"
    agent.use(serve([Paused(hold, Reply(f"Sizes:\n\n{table}"), after=4)]))
    terminal = talk("list them", columns=columns)
    terminal.until("first")
    # Whatever the window does to the rows, all from the cursor on can be drawn anew.
    cursor = terminal.screen.cursor
    terminal.until(
        lambda rows: cursor.hidden and not any("name" in row for row in rows[: cursor.y])
    )
    terminal.type("steer").until("> steer")
    terminal.resize(columns - 20, 24)
    terminal.type("!").until("> steer!")
    hold.set()
    terminal.until("done in")
    # Drawn to its end, where the cursor is shown again.
    rows = terminal.until(lambda rows: not terminal.screen.cursor.hidden)
    assert [sum(word in row for row in rows) for word in ("name", "first", "three")] == [1, 1, 1]


def test_ctrl_b_sends_the_running_command_to_the_background(agent, serve, talk):
    replies = [
        running("echo begun; while [ ! -e go ]; do sleep 0.02; done; echo all built"),
        running("touch go; while ! grep built $AGENT_OUT/*; do sleep 0.02; done"),
        running("true"),
        Reply("It is built."),
    ]
    server = agent.asks(serve(replies))
    terminal = talk("build it", "--yolo")
    terminal.until(lambda rows: "begun" in map(str.strip, rows))
    terminal.type(CTRL_B).until("in the background as job-1")
    terminal.until("It is built.")
    told = server.results
    assert "begun\n[job job-1 runs" in told[0]
    assert "the user sent this command to the background" in told[0]
    assert "all built" in told[1]


@pytest.mark.parametrize("state", ["idle", "working", "asking"])
def test_a_window_that_is_closed_ends_it_and_nobody_is_said_to_have_interrupted(
    agent, serve, talk, state
):
    agent.use(serve([running()]))
    if state == "idle":
        terminal = talk()
        terminal.until(READY)
        assert terminal.hang_up() in (0, 143)
        return
    terminal = talk("wait for it", "--yolo" if state == "working" else "--no-sandbox")
    terminal.until("while [ ! -e go ]" if state == "working" else "do instead")
    assert terminal.hang_up() == 143
    assert "by the user" not in agent("sessions", "show", "--full").stdout


def test_ctrl_c_clears_the_line_then_leaves(agent, serve, talk):
    agent.use(serve([]))
    terminal = ready(talk)
    terminal.type("/hepl\r").until("did you mean /help?")
    terminal.type("nonsense").until("> nonsense")
    terminal.type(CTRL_C).until(lambda rows: not any("nonsense" in row for row in rows))
    terminal.type(CTRL_C).until("Ctrl-C again leaves")
    terminal.type(CTRL_C)
    assert terminal.ended() == 0
    assert not list((agent.home / "state").glob("sessions/*"))


def test_an_approval_takes_the_terminal_and_gives_it_back(agent, serve, talk):
    agent.use(serve([running("touch asked"), Reply("Touched.")]))
    terminal = talk("--no-sandbox", "touch it")
    terminal.until("touch asked")
    terminal.until("yes, once")
    terminal.type("y").until("Touched.")
    assert (agent.workspace / "asked").exists()
    assert not any("yes, once" in row for row in terminal.until("done in"))
    terminal.type("still here").until("> still here")


def test_a_long_paste_is_a_chip_and_arrives_whole(agent, serve, talk):
    server = agent.asks(serve([Reply("Read."), Reply("Read it.")]))
    terminal = ready(talk)
    pasted = "\n".join(f"line {number}" for number in range(2000))
    terminal.type(f"look: \x1b[200~{pasted}\x1b[201~").until("[pasted #1: 2,000 lines]")
    terminal.type("\r").until("Read.")
    assert "line 0\nline 1\n" in said(server)
    assert "line 1999" in said(server)
    terminal.until("done in")
    terminal.type(f"\x1b[200~{'a ' * 400}\x1b[201~").until("[pasted #2: 800 characters]")
    terminal.type("\r").until("Read it.")
    # A chip means nothing elsewhere: what it stood for is kept, unless it is too long to be typed.
    kept = (agent.home / "state" / "history").read_text()
    assert "a a a" in kept
    assert "pasted" not in kept


def test_several_lines_are_one_message_pasted_or_typed(agent, serve, talk):
    server = agent.asks(serve([Reply("Read it."), Reply("A path."), Reply("Read.")]))
    terminal = ready(talk)
    terminal.type("one\rtwo\rthree").until("three")
    assert not server.requests
    terminal.type("\r").until("Read it.")
    assert "one\ntwo\nthree" in said(server)
    terminal.type("/tmp/x is what?\r").until("A path.")
    for keys, seen in (("one\\", "one\\"), ("\r", ""), ("two", "two"), ("\x1b\r", ""), ("3", "3")):
        terminal.type(keys).until(seen)
    terminal.type("\r").until("Read.")
    assert "one\ntwo\n3" in said(server)


def test_files_are_completed_without_what_git_ignores(agent, serve, talk):
    server = agent.asks(serve([Reply("Read.")]))
    (agent.workspace / "src").mkdir()
    (agent.workspace / "src" / "main_loop.py").touch()
    (agent.workspace / ".gitignore").write_text("built\n")
    (agent.workspace / "built").mkdir()
    (agent.workspace / "built" / "main_old.py").touch()
    terminal = ready(talk)
    terminal.type("see @mainlo").until("@src/main_loop.py")
    rows = terminal.type("\x7f\x7f").until("@src/main_loop.py")
    assert not any("main_old" in row for row in rows)
    terminal.type("\t").until("> see @src/main_loop.py")
    terminal.type("\r").until("Read.")
    assert "see @src/main_loop.py" in said(server)


def test_a_command_of_ones_own_goes_into_the_conversation_or_not(agent, serve, talk):
    server = agent.asks(serve([Reply("Read.")]))
    terminal = ready(talk)
    terminal.type("!!echo unseen $((6 * 7))\r").until(after("unseen 42"))
    terminal.type("!echo seen $((6 * 8))\r").until(after("seen 48"))
    terminal.type("what was that?\r").until("Read.")
    told = said(server)
    assert "$ echo seen $((6 * 8))\n[exit code 0]\nseen 48" in told
    assert "unseen" not in told


def test_what_a_command_of_ones_own_does_not_read_stays_in_the_line(agent, serve, talk):
    server = agent.asks(serve([Reply("Read.")]))
    terminal = ready(talk)
    terminal.type("!!printf begun; while [ ! -e go ]; do sleep 0.02; done; printf over\r")
    terminal.until(lambda rows: "begun" in rows).clear()
    terminal.type("too early").until("beguntoo early")
    (agent.workspace / "go").touch()
    rows = terminal.until("> too early")
    assert rows[rows.index("> too early") - 1] == "beguntoo earlyover"
    terminal.type("\r").until("Read.")
    assert "too early" in said(server)
    # Nor is what it leaves in the background waited for.
    terminal.until("done in")
    terminal.type("!!sleep 1000 & echo left\r").until(after("left"))
    terminal.type("typed").until("> typed")


def test_all_that_was_done_is_shown_in_a_pager(agent, serve, talk):
    agent.use(serve([running("seq 100"), Reply("Counted.")]))
    terminal = talk("count to 100", "--yolo", PAGER="cat")
    terminal.until("Counted.")
    assert not any(row.strip() == "50" for row in terminal.until("done in"))
    terminal.type(CTRL_O)
    terminal.until(lambda rows: any(row.strip() == "90" for row in rows))


def test_the_mode_changes_and_holds(agent, serve, talk):
    server = agent.asks(serve([write("new.txt", "x"), Reply("Tried.")]))
    terminal = talk()
    terminal.until("ask (Shift-Tab)")
    terminal.type(SHIFT_TAB).until("auto-edit (Shift-Tab)")
    terminal.type(SHIFT_TAB).until("plan (Shift-Tab)")
    terminal.type("write it\r").until("Tried.")
    assert not (agent.workspace / "new.txt").exists()
    assert "plan mode" in str(server.requests[1].body["messages"])


def test_sigterm_ends_it(agent, serve, talk):
    agent.use(serve([running()]))
    terminal = at_work(talk)
    terminal.child.kill(signal.SIGTERM)
    assert terminal.ended() == 143


@pytest.mark.parametrize("state", ["idle", "working", "asking"])
def test_when_it_is_made_to_quit_pastes_are_no_longer_marked(agent, serve, talk, state):
    agent.use(serve([running()]))
    if state == "idle":
        terminal = talk()
        terminal.until(READY)
    else:
        terminal = talk("wait for it", "--yolo" if state == "working" else "--no-sandbox")
        terminal.until("while [ ! -e go ]" if state == "working" else "do instead")
    terminal.child.kill(signal.SIGQUIT)
    terminal.ended()
    assert terminal.child.signalstatus == signal.SIGQUIT
    assert terminal.raw.rfind(b"\x1b[?2004l") > terminal.raw.rfind(b"\x1b[?2004h")
    assert not terminal.screen.cursor.hidden
    assert not any("Shift-Tab" in row for row in terminal.rows)


def test_without_a_terminal_it_says_what_to_do(agent, serve):
    agent.use(serve([Reply("Done.")]))
    done = agent("do a thing")
    assert done.returncode == 2
    assert 'agent run "do a thing"' in done.stderr
    assert agent("-p", "do a thing").stdout == "Done.\n"


def test_what_waits_when_it_is_interrupted_is_held_until_it_is_sent(agent, serve, talk):
    server = agent.asks(serve([running(), Reply("Heard now.")]))
    terminal = at_work(talk)
    terminal.type("and turn left\r").until("next: and turn left")
    terminal.type(ESC).until("held, Enter sends it: and turn left")
    assert len(server.requests) == 1
    terminal.type("\r").until("Heard now.")
    assert "and turn left" in said(server)
    assert not any("held" in row for row in terminal.until("done in"))


def test_earlier_lines_are_there_in_a_later_conversation(agent, serve, talk):
    agent.use(serve([Reply("One."), Reply("Two.")]))
    first = talk("begin with this")
    first.until("One.")
    first.type("the key is sk-ant-api03-abcdefghijklmnop0123456789\r").until("Two.")
    first.until("done in").clear()
    first.type(CTRL_D)
    assert first.ended() == 0
    assert "abcdefghijklmnop" not in (agent.home / "state" / "history").read_text()
    later = talk()
    later.until(READY)
    later.type("\x1b[A").until("> the key is")
    later.type(CTRL_C).until(lambda rows: not any("the key is" in row for row in rows))
    later.type("\x12key").until("the key is")


def test_an_image_dropped_on_the_terminal_goes_with_the_message(agent, serve, talk):
    server = agent.asks(serve([Reply("A dot.")]))
    picture = agent.workspace / "a dot.png"
    picture.write_bytes(base64.b64decode(PNG))
    terminal = ready(talk)
    dropped = str(picture).replace(" ", "\\ ")
    terminal.type(f"what is \x1b[200~{dropped}\x1b[201~?").until("[image #1: a dot.png]?")
    terminal.type("\r").until("A dot.")
    assert PNG in str(server.requests[0].body["messages"])


@pytest.mark.parametrize("way", ["--plain", "TERM=dumb"])
def test_lines_only_and_nothing_redrawn(agent, serve, talk, way):
    server = agent.asks(
        serve([running("touch asked"), Reply("Touched, **you**."), Reply("Read both.")])
    )
    arguments = ["--no-sandbox", *(["--plain"] if way == "--plain" else [])]
    terminal = talk(*arguments, **({} if way == "--plain" else {"TERM": "dumb"}))
    terminal.until(lambda rows: ">" in rows)
    terminal.type("touch it\r").until("no; or type")
    terminal.type("y\r").until("done in")
    assert (agent.workspace / "asked").exists()
    terminal.type("one\rtwo\\\rthree\r").until("Read both.")
    assert "one\ntwo\nthree" in said(server)
    terminal.until(lambda rows: sum("done in" in row for row in rows) == 2)
    terminal.type("/hepl\r").until("did you mean /help?")
    terminal.type(CTRL_D)
    assert terminal.ended() == 0
    assert b"\x1b" not in terminal.raw


def test_a_mentioned_session_is_told_with_the_message(agent, serve, talk):
    replies = [Reply("It was the lock."), Reply("Hm."), running(), Reply("As before.")]
    server = agent.asks(serve(replies, sessions=2))
    agent("run", "--name", "earlier", "why does it hang?")
    terminal = ready(talk, "--yolo")
    terminal.type("again, see @hang").until("@session:")
    terminal.type("\t").until("> again, see @session:2")
    terminal.type("\r").until("Hm.")
    assert "was about: why does it hang?" in said(server)
    assert said(server).count("It was the lock.") == 1
    terminal.until("done in")
    terminal.type("wait for it\r").until("while [ ! -e go ]")
    terminal.type("see @session:never\r").until("there is no session 'never'")
    terminal.type("\x15see @hang").until("@session:")
    terminal.type("\t").until("> see @session:2")
    terminal.type("\r").until("next: see @session:2")
    (agent.workspace / "go").touch()
    terminal.until("As before.")
    assert said(server).count("It was the lock.") == 2
