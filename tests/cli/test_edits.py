"""Edits of files that change under the model's hands, and replies that edit and then run."""

from __future__ import annotations

import pytest

from tests.scripted import call
from tests.server import Call, Reply

LINES = "".join(f"line {number}\n" for number in range(1, 31))


@pytest.fixture
def work(agent, serve):
    """`work(reply, …)` returns what the model was told about its calls."""

    def run(*replies: Reply, more: tuple[str, ...] = ()) -> list[str]:
        server = serve([*replies, Reply("Done.")], sessions=2)
        agent.use(server).ok("run", *more, "x")
        return server.results

    return run


def edit(old: str, new: str, path: str = "a.txt", **more: object) -> Call:
    return Call("edit", {"path": path, "old_str": old, "new_str": new, **more})


def test_an_edit_after_a_formatter_is_made_and_tells_what_the_formatter_did(agent, work):
    file = agent.workspace / "a.txt"
    file.write_text(LINES)
    told = work(
        call("read", path="a.txt"),
        call("bash", command="sed -i 's/line 3$/LINE 3/; 25d' a.txt"),
        Reply("", [edit("line 10\n", "ten\n")]),
    )[-1]
    assert told.startswith("Edited a.txt:\n8\tline 8\n9\tline 9\n10\tten\n")
    assert "a.txt had changed since you last saw it, by a command or by someone else:" in told
    assert "-line 3\n+LINE 3\n" in told
    assert "-line 25\n" in told
    assert "ten" not in told.partition("had changed")[2]
    changed = LINES.replace("line 3\n", "LINE 3\n").replace("line 25\n", "")
    assert file.read_text() == changed.replace("line 10\n", "ten\n")


def test_the_change_is_told_once_and_undo_keeps_it(agent, work):
    file = agent.workspace / "a.txt"
    file.write_text(LINES)
    told = work(
        call("read", path="a.txt"),
        call("bash", command="sed -i '25d' a.txt"),
        Reply("", [edit("line 10\n", "ten\n")]),
        Reply("", [edit("line 11\n", "eleven\n")]),
        call("edit", path="a.txt", undo=True),
        call("edit", path="a.txt", undo=True),
    )
    assert "had changed" in told[2]
    assert "had changed" not in told[3]
    assert told[5].startswith("Took back the last edit")
    assert file.read_text() == LINES.replace("line 25\n", "")


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ("sed -i 's/line 10$/line ten/' a.txt", "old_str is not in a.txt"),
        ("echo 'line 10' >> a.txt", "old_str is found 2 times in a.txt, at lines 10, 31."),
    ],
)
def test_what_is_gone_or_no_longer_unique_is_refused_with_what_changed(agent, work, command, fault):
    file = agent.workspace / "a.txt"
    file.write_text(LINES)
    told = work(
        call("read", path="a.txt"),
        call("bash", command=command),
        Reply("", [edit("line 10\n", "10\n")]),
    )[-1]
    assert told.startswith(fault)
    assert "had changed since you last saw it" in told
    assert "10\n" not in file.read_text().splitlines()


def test_line_numbers_count_only_in_the_file_that_was_seen(agent, work):
    file = agent.workspace / "a.txt"
    file.write_text(LINES)
    insert = call("edit", path="a.txt", insert_line=10, new_str="new")
    told = work(
        call("read", path="a.txt"), call("bash", command="sed -i 1,3d a.txt"), insert, insert
    )
    assert told[2].startswith("Nothing was written. a.txt had changed")
    assert "-line 3\n" in told[2]
    assert told[3].startswith("Edited a.txt:")
    assert "line 13\nnew\nline 14\n" in file.read_text()


def test_a_whole_file_written_over_another_tells_what_it_replaced(agent, work):
    (agent.workspace / "a.txt").write_text("one\ntwo\nthree\n")
    told = work(call("write", path="a.txt", content="one\n2\nthree\n"))[-1]
    assert told.startswith("Replaced a.txt: 3 lines (+1 -1, at lines 2).\n")
    assert "-two\n+2\n" in told
    agent.ok("undo")
    assert (agent.workspace / "a.txt").read_text() == "one\ntwo\nthree\n"


def test_nothing_is_written_over_what_no_checkpoint_holds(agent, work):
    """Without checkpoints; and for a file made by a command after the step's checkpoint."""
    write = Call("write", {"path": "a.txt", "content": "new\n"})
    (agent.workspace / "a.txt").write_text("old\n")
    told = work(Reply("", [write]), more=("--set", "agent.checkpoints=false"))
    assert "not read in this session yet" in told[-1]
    assert (agent.workspace / "a.txt").read_text() == "old\n"
    (agent.workspace / "a.txt").unlink()
    told = work(Reply("", [Call("bash", {"command": "echo old > a.txt"}), write]))
    assert "not read in this session yet" in told[-1]
    assert (agent.workspace / "a.txt").read_text() == "old\n"


def test_what_would_run_on_half_a_change_is_not_run(agent, work):
    (agent.workspace / "a.txt").write_text("one\n")
    told = work(
        Reply(
            "",
            [
                Call("bash", {"command": "touch before"}),
                edit("two", "2"),
                Call("read", {"path": "a.txt"}),
                Call("bash", {"command": "touch after"}),
                edit("one", "1"),
                Call("bash", {"command": "touch after"}),
            ],
        ),
        call("bash", command="touch later"),
    )
    assert told[1].startswith("old_str is not in a.txt")
    assert told[2] == "1\tone"
    assert told[3].startswith("Not run: an edit before it")
    assert told[4].startswith("Edited")
    assert told[5].startswith("Not run: an edit before it")
    assert {file.name for file in agent.workspace.iterdir()} == {"a.txt", "before", "later"}


def test_several_edits_of_a_file_are_made_in_order_or_not_at_all(agent, work):
    file = agent.workspace / "a.txt"
    file.write_text(LINES)

    def pair(old: str, new: str, **more: object) -> dict[str, object]:
        return {"old_str": old, "new_str": new, **more}

    wrong = [pair("line 2\n", "two\n"), pair("line 99\n", "")]
    right = [
        pair("line 5\n", "5\n5b\n"),
        pair("5b", "five b"),
        pair("line", "LINE", replace_all=True),
    ]
    told = work(
        call("edit", path="a.txt", edits=wrong),
        Reply("", [edit("line 30\n", "30\n", edits=right)]),
    )
    assert told[0].startswith("None of the 2 edits was made. Edit 2: old_str is not in a.txt")
    assert "5\t5\n6\tfive b\n" in told[1]
    after = LINES.replace("line 30\n", "30\n").replace("line 5\n", "5\nfive b\n")
    assert file.read_text() == after.replace("line", "LINE")
    agent.ok("undo")
    assert file.read_text() == LINES
