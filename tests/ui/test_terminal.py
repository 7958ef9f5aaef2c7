import io
import socket
import subprocess
import sys
from textwrap import dedent

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentcli.events import LLMMetrics, ReplyPart, Source
from agentcli.events.actions import (
    AgentFinishAction,
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    IPythonRunCellAction,
    MessageAction,
    TaskTrackingAction,
    ToolCallAction,
)
from agentcli.events.observations import (
    AgentStateChangedObservation,
    CmdMetadata,
    CmdOutputObservation,
    DecisionObservation,
    ErrorObservation,
    FileEditObservation,
    FileReadObservation,
    IPythonRunCellObservation,
    SessionStartedObservation,
    TaskTrackingObservation,
    ToolResultObservation,
    UserRejectObservation,
)
from agentcli.events.progress import (
    Notice,
    ReasoningDelta,
    ReplyAbandoned,
    Status,
    TextDelta,
    ToolCallStarted,
    ToolOutput,
)
from agentcli.ui import screen
from agentcli.ui.renderer import TerminalRenderer
from agentcli.ui.summary import RunSummary
from agentcli.ui.text import without_escapes
from agentcli.ui.transcript import render_conversation, transcript


def run(id, command="pytest -q", **more):
    return CmdRunAction(id=id, command=command, **more)


def ran(cause, content="", code=0, seconds=0.1):
    metadata = CmdMetadata(exit_code=code, duration_s=seconds)
    return CmdOutputObservation(cause=cause, content=content, metadata=metadata)


def read(id, path="a.py"):
    return FileReadAction(id=id, path=path)


def was_read(cause, path="a.py"):
    return FileReadObservation(cause=cause, path=path, lines_shown=(1, 40), lines_total=212)


def part(index, total):
    return ReplyPart(id="r", index=index, total=total)


def said(content, total=1):
    return MessageAction(content=content, reply=part(0, total))


def looks(text):
    return dedent(text).strip("\n")


@pytest.fixture
def show(terminal, clock):
    """Show events and progress at a terminal; an int or float lets so many seconds pass."""
    renderer = TerminalRenderer(terminal, clock=clock)

    def show(*items):
        for item in items:
            if isinstance(item, int | float):
                clock.now += item
                renderer.tick()
            elif hasattr(item, "kind"):
                renderer.on_event(item)
            else:
                renderer.on_progress(item)
        return terminal.text

    show.renderer = renderer
    return show


def in_pipe(*items, **options):
    stream = io.StringIO()
    renderer = TerminalRenderer(stream, **options)
    for item in items:
        (renderer.on_event if hasattr(item, "kind") else renderer.on_progress)(item)
    renderer.close()
    return stream.getvalue()


# A terminal: calls


def test_a_call_and_its_result_are_one_line(show):
    assert show(read(0), was_read(0)) == "• read    a.py · 40 of 212 lines"


def test_calls_of_one_reply_stay_with_their_results(show):
    show(read(0, "a.py"), read(1, "b.py"), run(2), was_read(0), was_read(1))
    assert show(ran(2, "1 failed\n", code=1)) == looks(
        """
        • read    a.py · 40 of 212 lines
        • read    b.py · 40 of 212 lines
        • bash    $ pytest -q · exit 1 · 0.1 s
            1 failed
        """
    )


def test_the_name_of_a_call_is_there_before_its_arguments(show):
    assert show(ToolCallStarted("write")).endswith(" write …")
    assert show(12.0).endswith(" write … 12 s")
    assert show(run(0)).endswith(" bash    $ pytest -q")


def test_a_running_command_shows_the_end_of_its_output_and_its_time(show):
    show(run(0), ToolOutput(0, "".join(f"test {n}\n" for n in range(9))))
    rows = show(3.0).split("\n")
    assert rows[0].endswith(" bash    $ pytest -q · 3 s")
    assert rows[1:] == ["    … +5 lines", *(f"    test {n}" for n in range(5, 9))]
    assert "$ pytest -q · 4 s" in show(1.0)
    assert show(ran(0, "all\nfine\n")) == looks(
        """
        • bash    $ pytest -q · exit 0 · 0.1 s
            all
            fine
        """
    )


def test_a_command_wider_than_the_screen_is_there_whole_before_it_runs(show):
    command = "echo " + "x" * 150
    assert show(run(0, command)).endswith("xx…")
    *rows, live = show(Status("running", "…")).split("\n")
    assert "".join(rows) == f"• bash    $ {command}"
    assert live.endswith(" bash    running")
    assert show(ran(0)).endswith("xx\n    exit 0 · 0.1 s · no output")


SCRIPT = "cat > x.py <<'EOF'\n" + "".join(f"print({n})\n" for n in range(12)) + "EOF"


def test_code_is_shown_before_it_runs_as_it_can_be_copied(show):
    text = show(run(0, SCRIPT), Status("running", "…"))
    rows = text.split("\n")
    assert rows[0] == "• bash    $ cat > x.py <<'EOF'"
    assert rows[1:8] == [f"print({n})" for n in range(7)]
    assert rows[8] == "    … +6 lines"
    assert show(ran(0)).split("\n")[9:] == ["    exit 0 · 0.1 s · no output"]


def test_code_of_python_begins_on_a_line_of_its_own(show, terminal):
    cell = IPythonRunCellAction(id=0, code="def f():\n    return 1\nf()")
    show(cell, Status("running", "…"), IPythonRunCellObservation(cause=0, content="1"))
    assert show().split("\n") == ["• python", "def f():", "    return 1", "f()", "    1"]
    assert "\x1b[35mdef\x1b[0m" in terminal.getvalue()


def test_what_the_model_is_told_of_the_exit_is_said_once(show):
    show(run(0, "make"), ran(0, "oops\n[exit 2]\n[cut: 9 lines]", code=2))
    assert show(run(1, "cd src"), ran(1, "[exit 0, no output; now in /w/src]")) == looks(
        """
        • bash    $ make · exit 2 · 0.1 s
            oops
            [cut: 9 lines]
        • bash    $ cd src · exit 0 · 0.1 s · now in /w/src · no output
        """
    )


def test_failures_are_told_without_colour_too(show):
    error = ErrorObservation(cause=0, error_id="file_error", content="a.py is a folder\nor so")
    assert show(FileEditAction(id=0, path="a.py"), error) == looks(
        """
        ✗ edit    a.py · error: a.py is a folder
            or so
        """
    )


def test_a_mistake_of_the_model_is_told_in_words_for_people(show):
    error = ErrorObservation(cause=0, error_id="no_match", content="old_str is not in a.py\nat 3")
    shown = show(FileEditAction(id=0, path="a.py"), error)
    assert "not changed: what the model would replace is not in the file" in shown
    assert "old_str" not in shown


def test_edits_show_their_diff(show):
    diff = "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n same\n-old\n+new\n"
    text = show(
        FileEditAction(id=0, path="a.py"), FileEditObservation(cause=0, path="a.py", diff=diff)
    )
    assert text == looks(
        """
        • edit    a.py · +1 -1
            1   same
            2 - old
            2 + new
        """
    )


def test_changes_are_never_cut_at_the_edge_of_the_screen(show):
    diff = f"@@ -1 +1 @@\n-old\n+{'long ' * 40}end\n"
    edited = FileEditObservation(cause=0, path="a.py", diff=diff)
    text = show(FileEditAction(id=0, path="a.py"), edited)
    assert f"1 + {'long ' * 40}end" in text.replace("\n", "")


def test_counts_of_what_is_hidden_include_what_no_event_holds(show):
    gap = "[… lines 3-98 of 100 not shown, 9 bytes; the whole: $AGENT_OUT/x; grep it …]"
    text = show(run(0), ran(0, f"1\n2\n{gap}\n99\n100\n"))
    assert text.split("\n")[1:] == ["    … +98 lines", "    99", "    100"]


def test_a_call_that_had_more_than_the_sandbox_gives_is_marked(show):
    show(run(0, "curl x", network=True, reason="r"), ran(0, "a"))
    show(run(1, "make", unsandboxed=True, reason="r"), ran(1, "b"))
    assert [row for row in show().split("\n") if "exit" in row] == [
        "• bash    $ curl x · exit 0 · 0.1 s · with network",
        "• bash    $ make · exit 0 · 0.1 s · outside the sandbox",
    ]


def test_a_call_that_no_tool_understood_is_told_in_words(show):
    call = ToolCallAction(id=0, name="grep", raw_arguments='{"patern": 1}', error="Field required")
    wrong = ErrorObservation(cause=0, error_id="invalid_tool_call", content="Field required")
    assert show(call, wrong) == (
        "✗ grep    not run: the model made a mistake in this call, and was told"
    )


def test_a_task_list_is_a_list_of_boxes(show):
    items = ({"title": "find it", "status": "done"}, {"title": "fix it", "status": "in_progress"})
    plan = TaskTrackingAction(id=0, command="plan", task_list=(*items, {"title": "test it"}))
    assert show(plan, TaskTrackingObservation(cause=0)) == looks(
        """
        • todo    1/3 done
            [x] find it
            [>] fix it
            [ ] test it
        """
    )


def test_what_the_user_decided_stands_with_the_call(show):
    show(run(0, "make"), DecisionObservation(cause=0, decision="ask", by="policy"))
    grant = {"grant": "bash(make)", "scope": "session"}
    show(DecisionObservation(cause=0, decision="allow", by="user", **grant))
    show(ran(0, "ok"), run(1, "rm -rf x"))
    show(DecisionObservation(cause=1, decision="deny", by="user", reason="keep it"))
    assert show(UserRejectObservation(cause=1, reason="keep it")) == looks(
        """
        • bash    $ make
            exit 0 · 0.1 s · allowed by you, and for this session bash(make)
            ok
        ✗ bash    $ rm -rf x · not allowed by you: keep it
        """
    )


def test_what_was_allowed_for_good_is_told_apart_from_what_was_for_the_session(show):
    show(run(0, "make"))
    allowed = DecisionObservation(cause=0, decision="allow", by="user")
    show(allowed.model_copy(update={"grant": "bash(make)", "scope": "always"}))
    assert "allowed by you, and always here bash(make)" in show(ran(0, "ok"))


def test_a_call_that_waited_for_an_answer_is_shown_when_it_gets_one_from_a_later_process(show):
    show.renderer.expect([run(0, "make"), run(1, "ls")])
    assert show() == ""
    show(DecisionObservation(cause=0, decision="ask", by="policy"))
    show(DecisionObservation(cause=0, decision="allow", by="user"))
    assert show(ran(0, "ok"), ran(1, "a.py")) == looks(
        """
        • bash    $ make · exit 0 · 0.1 s · allowed by you
            ok
        • bash    $ ls · exit 0 · 0.1 s
            a.py
        """
    )


def test_a_long_reason_keeps_its_margin(show):
    reason = "because " * 30
    show(run(0, "make"), DecisionObservation(cause=0, decision="deny", by="user", reason=reason))
    rows = show(UserRejectObservation(cause=0, reason=reason)).split("\n")
    assert len(rows) > 3
    assert all(row.startswith("    ") for row in rows[1:])


def test_a_result_out_of_order_stays_with_its_call(show):
    show(read(0, "a.py"), read(1, "b.py"), was_read(1, "b.py"))
    assert show(was_read(0)).split("\n") == [
        "• read    b.py · 40 of 212 lines",
        "• read    a.py · 40 of 212 lines",
    ]


# A terminal: text


def test_text_is_rendered_while_it_streams_and_printed_once(show):
    show(TextDelta("Some **bo"))
    assert show(TextDelta("ld** text.\n\n- one\n"), 0.1) == "Some bold text.\n\n • one"
    assert show(TextDelta("- two"), said("…")) == "Some bold text.\n\n • one\n • two"


def test_text_and_calls_are_set_apart(show):
    show(TextDelta("I'll look."), ToolCallStarted("read"), said("I'll look.", total=2))
    show(read(1), was_read(1), run(2), ran(2))
    assert show(TextDelta("Done."), said("Done.")) == looks(
        """
        I'll look.

        • read    a.py · 40 of 212 lines
        • bash    $ pytest -q · exit 0 · 0.1 s · no output

        Done.
        """
    )


def test_a_reply_that_did_not_stream_is_shown_when_it_is_there(show):
    assert show(said("# All *done*")) == "All done"


def test_an_abandoned_reply_goes_with_a_note(show):
    assert show(TextDelta("Half a sent"), ReplyAbandoned("connection lost")) == ""
    show(TextDelta("First.\n\nSec"), 0.1, ReplyAbandoned("stalled"))
    assert show(TextDelta("Again."), said("Again.")) == looks(
        """
        First.

        reply broken off: stalled; the text above does not count

        Again.
        """
    )


def test_the_answer_can_go_elsewhere(terminal):
    renderer = TerminalRenderer(terminal, show_text=False)
    for text, total in (("I'll look.", 2), ("The answer.", 1)):
        renderer.on_progress(TextDelta(text))
        renderer.on_event(said(text, total))
    renderer.on_event(AgentFinishAction(id=3, final_thought="The answer."))
    renderer.on_event(ToolResultObservation(cause=3, name="finish"))
    assert terminal.text == "I'll look."


def test_an_answer_that_is_given_twice_is_shown_once(show):
    show(
        TextDelta("All done."),
        said("All done.", 2),
        AgentFinishAction(id=1, final_thought="All done."),
    )
    assert show(ToolResultObservation(cause=1, name="finish")) == "All done."
    show(MessageAction(source=Source.USER, content="again", delivery="queue"))
    show(AgentFinishAction(id=2, final_thought="All done."))
    assert show(ToolResultObservation(cause=2, name="finish")).count("All done.") == 2


def test_reasoning_is_shown_when_asked_for(terminal):
    renderer = TerminalRenderer(terminal, verbose=1)
    renderer.on_progress(ReasoningDelta("First this.\nThen"))
    renderer.on_progress(ReasoningDelta(" that."))
    renderer.on_progress(TextDelta("Yes."))
    renderer.on_event(said("Yes."))
    assert terminal.text == "First this.\nThen that.\n\nYes."
    assert "\x1b[2mFirst this.\x1b[0m" in terminal.getvalue()


# A terminal: waiting


def test_short_waits_are_silent(show):
    assert show(Status("thinking"), 0.9) == ""
    assert show(2.2).endswith(" thinking … 3 s")
    assert show(TextDelta("Hi"), 0.1) == "Hi"


def test_a_repeated_status_does_not_start_the_clock_again(show):
    assert show(Status("thinking"), 3, Status("thinking"), 2).endswith(" thinking … 5 s")


def test_retries_count_down(show):
    assert show(Status("retrying", "overloaded", 8.0)).endswith(" retrying in 8 s · overloaded")
    assert show(3).endswith(" retrying in 5 s · overloaded")
    assert show(Status("retrying", "overloaded", 4.0)).endswith(" retrying in 4 s · overloaded")
    assert show(9).endswith(" retrying in 0 s · overloaded")


def test_nothing_transient_is_left_after_an_interrupt(show):
    show(Status("thinking"), 5)
    show.renderer.close()
    assert show() == ""
    show(run(0), ToolOutput(0, "line\n"), 5)
    show.renderer.close()
    assert show() == "• bash    $ pytest -q · no result"


def test_someone_else_can_use_the_terminal(show, terminal):
    show(run(0), 5)
    show.renderer.pause()
    assert terminal.text == ""
    terminal.write("Allow? y\n")
    assert show(ran(0)) == "Allow? y\n• bash    $ pytest -q · exit 0 · 0.1 s · no output"


def test_still_waiting_writes_nothing(show, terminal):
    show(run(0))
    before = terminal.writes
    show(0.0, 0.0)
    assert terminal.writes == before


# A terminal: form


def test_control_sequences_of_others_do_not_act(show, terminal):
    evil = "\x1b]52;c;eA==\x07\x1b[2J\x1b[1;1Hgone\x08"
    show(run(0, f"echo {evil}"), ToolOutput(0, evil), 2, Notice(evil), Status("waiting", evil), 2)
    show(ran(0, evil), ToolCallAction(id=1, name=evil, raw_arguments=evil), 2)
    show(ErrorObservation(cause=1, error_id=evil, content=evil), ToolCallStarted(evil))
    show(TextDelta(evil), 1, ReplyAbandoned(evil), said(evil, 2))
    show(AgentStateChangedObservation(agent_state="error", reason=evil, content=evil))
    assert "\x1b]" not in terminal.getvalue()
    assert "\x1b[1;1H" not in terminal.getvalue()
    assert "\x08" not in terminal.getvalue()


@pytest.mark.parametrize("columns", [20, 80, 120])
def test_live_rows_never_wrap(fake_terminal, terminal, clock, columns):
    narrow = fake_terminal(columns)
    renderer = TerminalRenderer(narrow, width=columns, clock=clock)
    renderer.on_event(run(0, "世界 " * 60))
    for n in range(20):
        renderer.on_progress(ToolOutput(0, "世界 wide " * n + "\n"))
        clock.now += 1
        renderer.tick()
        assert len(narrow.text.split("\n")) <= 6
    renderer.close()


def test_notes_and_errors_are_broken_between_words(fake_terminal, terminal):
    narrow = fake_terminal(30)
    renderer = TerminalRenderer(narrow, width=30)
    renderer.on_progress(
        Notice("this folder is in no git repository\n  agent run --a-long-option here")
    )
    renderer.on_event(ErrorObservation(error_id="x", content="the provider did not answer in time"))
    assert narrow.text.split("\n") == [
        "this folder is in no git",
        "repository",
        "  agent run --a-long-option he",
        "re",
        "error: the provider did not",
        "answer in time",
    ]


@pytest.mark.parametrize(
    ("environ", "known"),
    [
        ({"TERM": "xterm-kitty"}, True),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, True),
        ({"TERM": "xterm-256color", "VTE_VERSION": "7400"}, True),
        ({"TERM": "xterm-256color", "VTE_VERSION": "4200"}, False),
        ({"TERM": "xterm-256color"}, False),
        ({"TERM": "xterm-kitty", "TMUX": "/tmp/x"}, False),
        ({"TERM_PROGRAM": "tmux", "TERM_PROGRAM_VERSION": "3.4", "TMUX": "x"}, True),
        ({"TERM_PROGRAM": "tmux", "TERM_PROGRAM_VERSION": "3.3a", "TMUX": "x"}, False),
        ({"TERM": "xterm-kitty", "FORCE_HYPERLINK": "0"}, False),
        ({"TERM": "vt100", "FORCE_HYPERLINK": "1"}, True),
    ],
)
def test_links_are_for_terminals_that_are_known_to_have_them(environ, known):
    assert screen.terminal_opens_links(environ) is known


def test_paths_are_links_to_files_of_this_machine(monkeypatch):
    class Linking(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("FORCE_HYPERLINK", "1")
    stream = Linking()
    render_conversation([HISTORY[0], read(1, "a b\x07.py"), was_read(1)], stream)
    host = socket.gethostname()
    link = f"\x1b]8;;file://{host}/home/me/proj/a%20b%07.py\x1b\\a b␇.py\x1b]8;;\x1b\\"
    assert link in stream.getvalue()


def test_no_color_keeps_weight_only(terminal, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    renderer = TerminalRenderer(terminal)
    renderer.on_event(run(0))
    renderer.on_event(ran(0, code=1))
    renderer.on_event(said("**bold** `code`"))
    assert "\x1b[3" not in terminal.getvalue()
    assert "\x1b[1mbold" in terminal.getvalue()


def test_a_dumb_terminal_gets_plain_lines(terminal, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    renderer = TerminalRenderer(terminal)
    renderer.on_progress(Status("thinking"))
    renderer.on_event(said("**Hi**"))
    assert terminal.getvalue() == "**Hi**\n"


PROGRESS = st.one_of(
    st.builds(TextDelta, st.text(st.sampled_from("ab*`-\n 世"), max_size=30)),
    st.builds(ToolOutput, st.integers(0, 3), st.text(st.sampled_from("ab\n\r世"), max_size=90)),
    st.builds(ToolCallStarted, st.just("bash")),
    st.builds(Status, st.sampled_from(["thinking", "running"])),
    st.builds(ReplyAbandoned, st.just("lost")),
    st.builds(run, st.integers(0, 3)),
    st.builds(ran, st.integers(0, 3), st.text(st.sampled_from("ab\n"), max_size=40)),
    st.builds(said, st.just("text")),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(PROGRESS, max_size=20))
def test_what_is_shown_for_good_is_never_changed(fake_terminal, terminal, clock, items):
    screen = fake_terminal(40, 12)
    renderer = TerminalRenderer(screen, width=40, clock=clock)
    kept = ""
    for item in items:
        (renderer.on_event if hasattr(item, "kind") else renderer.on_progress)(item)
        clock.now += 0.7
        renderer.tick()
        renderer.pause()
        assert screen.text.startswith(kept)
        kept = screen.text
        renderer.tick()
    renderer.close()
    assert screen.text.startswith(kept)


# A pipe


def test_a_pipe_gets_a_line_for_a_call_and_one_for_its_result():
    assert (
        in_pipe(
            Status("thinking"),
            TextDelta("I'll "),
            said("I'll look.", total=3),
            read(1),
            run(2),
            was_read(1),
            ToolOutput(2, "live"),
            ran(2, "...\n1 failed\n", code=1),
            said("The answer."),
        )
        == looks(
            """
        I'll look.

        • read    a.py
          40 of 212 lines
        • bash    $ pytest -q
          exit 1 · 0.1 s · 1 failed
        """
        )
        + "\n"
    )


def test_a_pipe_gets_no_control_characters_either():
    evil = "\x1b]52;c;eA==\x07\x1b[2J\x08"
    user = MessageAction(source=Source.USER, content=evil, delivery="steer")
    items = (said(evil, 2), user, run(0, evil), ran(0, evil, 1), Notice(evil), ReplyAbandoned(evil))
    for verbose in (0, 2):
        text = in_pipe(*items, Status("retrying", evil, 1.0), show_text=True, verbose=verbose)
        assert all(char.isprintable() or char == "\n" for char in text)


def test_a_pipe_hears_of_a_retry_once():
    retry = [Status("retrying", "overloaded", float(n)) for n in (8, 7, 6)]
    assert in_pipe(*retry) == "retrying in 8 s · overloaded\n"


def test_a_pipe_costs_no_rich():
    code = dedent(
        """
        import io, sys
        from agentcli.events.actions import CmdRunAction, MessageAction
        from agentcli.ui.renderer import TerminalRenderer
        renderer = TerminalRenderer(io.StringIO(), show_text=True)
        renderer.on_event(MessageAction(content="**世界**"))
        renderer.on_event(CmdRunAction(id=0, command="世界" * 200))
        print([name for name in sys.modules if name.startswith(("rich", "markdown_it"))])
        """
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_an_old_encoding_gets_ascii():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    renderer = TerminalRenderer(stream)
    renderer.on_event(read(0, "世.py"))
    renderer.on_event(was_read(0))
    assert stream.buffer.getvalue() == b"* read    ?.py\n  40 of 212 lines\n"


# The end


SUMMARY = RunSummary(
    status="paused",
    reason="interrupted",
    session_id="20261121-120000-ab12",
    exit_code=130,
    resume_command="agent resume 20261121-120000-ab12",
)


def closing(summary, **options):
    stream = io.StringIO()
    TerminalRenderer(stream, **options).closing_line(summary)
    return stream.getvalue()


def test_the_last_line_says_how_to_go_on():
    assert closing(SUMMARY) == ("interrupted after 0.0 s · agent resume 20261121-120000-ab12\n")


def test_quiet_says_only_what_is_needed():
    done = RunSummary(status="finished", session_id="s", resume_command="agent resume s")
    assert closing(done, quiet=True) == ""
    assert closing(SUMMARY, quiet=True) == "to go on: agent resume 20261121-120000-ab12\n"


def test_quiet_still_tells_errors_once():
    stream = io.StringIO()
    renderer = TerminalRenderer(stream, quiet=True)
    renderer.on_event(run(0))
    renderer.on_event(ErrorObservation(cause=0, error_id="x", content="the model's own"))
    renderer.on_event(AgentStateChangedObservation(agent_state="error", content="no key"))
    renderer.closing_line(
        RunSummary(
            status="error",
            session_id="s",
            exit_code=3,
            error="no key",
            hint="set ANTHROPIC_API_KEY",
            resume_command="agent resume s",
        )
    )
    assert (
        stream.getvalue()
        == looks(
            """
        error: no key
        set ANTHROPIC_API_KEY
        to go on: agent resume s
        """
        )
        + "\n"
    )


def test_an_interrupt_is_no_error():
    stream = io.StringIO()
    interrupted = RunSummary(status="error", session_id="s", exit_code=130, error="interrupted")
    TerminalRenderer(stream).closing_line(interrupted)
    assert stream.getvalue() == "interrupted after 0.0 s\n"


def test_facts_are_not_broken_over_rows(fake_terminal, terminal):
    narrow = fake_terminal(40)
    TerminalRenderer(narrow, width=40).closing_line(SUMMARY)
    assert narrow.text == looks(
        """
        interrupted after 0.0 s
        agent resume 20261121-120000-ab12
        """
    )


# Stored sessions


HISTORY = (
    SessionStartedObservation(
        id=0,
        version="1",
        session_id="s",
        model="m",
        sandbox="none",
        workspace="/home/me/proj",
        pid=1,
        host="h",
    ),
    MessageAction(id=1, source=Source.USER, content="fix it\nplease"),
    said("I'll look.", total=2),
    read(3, "/home/me/proj/a.py"),
    was_read(3),
    run(4),
    ran(4, "ok\n"),
    said("It is *fixed*."),
)


def test_a_stored_conversation_looks_as_it_did(terminal):
    render_conversation(HISTORY, terminal)
    assert terminal.text == looks(
        """
        s · m · no sandbox · /home/me/proj

        > fix it
          please

        I'll look.

        • read    a.py · 40 of 212 lines
        • bash    $ pytest -q · exit 0 · 0.1 s · no sandbox
            ok

        It is fixed.
        """
    )


def test_a_stored_conversation_goes_through_a_pipe_with_its_text():
    stream = io.StringIO()
    render_conversation(HISTORY, stream)
    assert "\x1b" not in stream.getvalue()
    assert stream.getvalue().endswith("It is *fixed*.\n")


def test_a_transcript_for_a_pager_folds_nothing_and_has_colours():
    gap = "[… lines 2-99 of 100 not shown, 9 bytes; the whole: $AGENT_OUT/x; grep it …]"
    events = [run(0, SCRIPT), ran(0, f"1\n{gap}\n100"), said("**All** done.")]
    kept = {"x": "".join(f"{n}\n" for n in range(1, 101))}.get
    text = transcript(events, kept, width=40, colors="full")
    rows = without_escapes(text).split("\n")
    assert rows[13:17] == ["EOF", "    exit 0 · 0.1 s", "    1", "    2"]
    assert rows[-4:] == ["    100", "", "All done.", ""]
    assert "\x1b[1mAll" in text


def test_a_transcript_tells_a_mistaken_call_as_people_write_and_breaks_it_between_words():
    raw = '{"path": "a.py", "text": "one\\ntwo", "options": {"deep": [1, 2]}}'
    call = ToolCallAction(id=0, name="edit", raw_arguments=raw, error="wrong")
    told = "edit was called wrongly: options is not one of its arguments"
    wrong = ErrorObservation(cause=0, error_id="invalid_tool_call", content=told)
    text = transcript([call, wrong], lambda name: None, width=40, colors="none")
    assert text.split("\n")[3:] == [
        "    path: a.py",
        "    text:",
        "      one",
        "      two",
        '    options: {"deep": [1, 2]}',
        "    edit was called wrongly: options is",
        "    not one of its arguments",
        "",
    ]


def test_verbose_shows_what_a_reply_cost():
    metrics = LLMMetrics(
        model="m", prompt_tokens=12_000, cache_read_tokens=9_000, completion_tokens=200, latency_s=3
    )
    text = in_pipe(said("x").model_copy(update={"llm_metrics": metrics}), verbose=1)
    assert text == "12k in (75% cached) · 200 out · price unknown · 3.0 s\n"
