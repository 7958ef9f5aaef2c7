from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from agentcli.errors import ToolError
from agentcli.events.actions import FileEditAction
from agentcli.events.observations import FileEditObservation, FileReadObservation
from agentcli.tools.edit import EDIT
from agentcli.tools.read import TOOL as READ
from agentcli.tools.write import TOOL as WRITE
from agentcli.workspace.tracking import FileTracker

CODE = "def f(a):\n    b = a + 1\n    return b\n\n\ndef g(a):\n    return a\n"


@pytest.fixture
def file(workspace, use):
    """`file(text)` makes a.py, read already."""

    def make(text: str):
        path = workspace / "a.py"
        path.write_bytes(text.encode())
        use(READ, path="a.py")
        return path

    return make


def failure(use, **arguments) -> ToolError:
    with pytest.raises(ToolError) as caught:
        use(EDIT, path="a.py", **arguments)
    return caught.value


# --- replace ------------------------------------------------------------------------------------


def test_a_replacement_is_confirmed_by_the_changed_lines(use, file):
    path = file(CODE)
    result = use(EDIT, path="a.py", old_str="a + 1", new_str="a + 2")
    assert path.read_text() == CODE.replace("a + 1", "a + 2")
    assert result.output == ("Edited a.py:\n1\tdef f(a):\n2\t    b = a + 2\n3\t    return b\n4\t")
    assert "-    b = a + 1\n+    b = a + 2\n" in result.data["diff"]
    assert result.data["old_content"] == CODE


def test_only_changed_lines_are_shown_in_full(use, file):
    long = "x" * 500
    file(f"{long}\na = 1\n{long}\nb = 1\n")
    shown = use(EDIT, path="a.py", old_str=" = 1\n", new_str=f" = {long}\n", replace_all=True)
    cut = "x" * 120 + " […]"
    assert shown.output == (f"Edited a.py:\n1\t{cut}\n2\ta = {long}\n3\t{cut}\n4\tb = {long}")


def test_several_edits_without_reading_in_between(use, file):
    path = file(CODE)
    use(EDIT, path="a.py", old_str="def f", new_str="def first")
    use(EDIT, path="a.py", old_str="def g", new_str="def second")
    assert "def first" in path.read_text()
    assert "def second" in path.read_text()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text("ab\n", max_size=20), old=st.text("ab\n", min_size=1), new=st.text("ab\n"))
def test_it_replaces_as_str_replace_does(use, file, text, old, new):
    assume(old in text and old != new)
    path = file(text)
    if text.count(old) > 1:
        assert failure(use, old_str=old, new_str=new).error_id == "several_matches"
        assert path.read_text() == text
    use(EDIT, path="a.py", old_str=old, new_str=new, replace_all=True)
    assert path.read_text() == text.replace(old, new)


def test_several_matches_are_refused_with_their_lines(use, file):
    file("x = 1\ny = 2\nx = 1\n")
    error = failure(use, old_str="x = 1", new_str="x = 3")
    assert "found 2 times in a.py, at lines 1, 3." in error.message


def test_all_places_of_a_replacement(use, file):
    path = file("x = 1\n" * 40)
    output = use(EDIT, path="a.py", old_str="x", new_str="y", replace_all=True).output
    assert path.read_text() == "y = 1\n" * 40
    assert output.splitlines()[1:7] == [f"{n}\ty = 1" for n in range(1, 7)]
    assert "[40 places in all; also at lines 5, 6, 7," in output


def test_the_form_of_the_file_stays(use, file):
    path = file("\ufeffa\r\nb\r\nc")
    use(EDIT, path="a.py", old_str="a\nb", new_str="a\nB\nb")
    assert path.read_bytes() == "\ufeffa\r\nB\r\nb\r\nc".encode()


def test_old_text_with_windows_line_endings_is_understood(use, file):
    path = file("a\nb\n")
    use(EDIT, path="a.py", old_str="a\r\nb", new_str="c\r\nd")
    assert path.read_bytes() == b"c\nd\n"


def test_nothing_to_do_is_an_error(use, file):
    file(CODE)
    assert failure(use, old_str="def f", new_str="def f").error_id == "no_change"
    assert "insert_line" in failure(use, new_str="x").message
    assert "write" in failure(use, old_str="", new_str="x").message


def test_what_was_never_read_may_be_edited_and_what_changed_since(use, file, workspace):
    (workspace / "b.py").write_text("x")
    use(EDIT, path="b.py", old_str="x", new_str="y")
    assert (workspace / "b.py").read_text() == "y"
    path = file("x\n")
    path.write_text("x changed\n")
    told = use(EDIT, path="a.py", old_str="x", new_str="y").output
    assert path.read_text() == "y changed\n"
    assert "-x\n+x changed" in told


def test_how_a_file_changed_is_told_only_as_far_as_it_is_known(use, file, ctx):
    path = file("x\n")
    path.write_bytes(b"x\r\n")
    told = use(EDIT, path="a.py", old_str="x", new_str="y").output
    assert "in its line endings or encoding only" in told
    path.write_text("z\ny\n")
    ctx.files._contents.clear()  # as in a process that resumes the session
    told = use(EDIT, path="a.py", old_str="y", new_str="x").output
    assert "how is no longer known" in told
    assert path.read_text() == "z\nx\n"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text("abc\n", max_size=30),
    pairs=st.lists(
        st.tuples(st.text("abc\n", min_size=1, max_size=3), st.text("abcd\n", max_size=4))
    ),
)
def test_several_replacements_equal_one_after_another(use, file, text, pairs):
    assume(pairs and all(old != new for old, new in pairs))
    path, expected = file(text), text
    edits = [{"old_str": old, "new_str": new, "replace_all": True} for old, new in pairs]
    for old, new in pairs:
        if old not in expected:
            assert failure(use, edits=edits).error_id == "no_match"
            assert path.read_text() == text
            return
        expected = expected.replace(old, new)
    use(EDIT, path="a.py", edits=edits)
    assert path.read_text() == expected


def test_a_missing_file_brings_similar_names(use, file, workspace):
    file("x")
    with pytest.raises(ToolError, match=r"There is no b\.py\. Similar: a\.py"):
        use(EDIT, path="b.py", old_str="x", new_str="y")


# --- near misses --------------------------------------------------------------------------------


def test_wrong_indentation_is_named(use, file):
    file("class A:\n    def f(self):\n        return 1\n")
    error = failure(use, old_str="  def f(self):\n    return 1\n", new_str="")
    assert error.message == (
        "old_str is not in a.py: it differs only in indentation (old_str: 2 spaces, file: 4 spaces)"
        " from:\n2\t    def f(self):\n3\t        return 1"
    )
    file("if x:\n\treturn 1\n")
    error = failure(use, old_str="if x:\n    return 1\n", new_str="")
    assert "(old_str: 4 spaces, file: 1 tab)" in error.message


@pytest.mark.parametrize(
    ("text", "old", "difference"),
    [
        ("a = 1  \nb = 2\n", "a = 1\nb = 2", "white space at line ends"),
        ("f(a,  b)\n", "f(a, b)", "white space"),
        ("s = “quoted”\n", 's = "quoted"', "quotes, dashes"),
        ("s = 'quoted'\n", 's = "quoted"', "quotes, dashes"),
        ("a\u00a0=\u00a01 \u2013 2\n", "a = 1 - 2", "quotes, dashes"),
    ],
)
def test_small_differences_are_named(use, file, text, old, difference):
    file(text)
    message = failure(use, old_str=old, new_str="x").message
    assert f"differs only in {difference}" in message
    assert "\n1\t" in message


def test_line_numbers_and_escapes_in_old_text_are_recognised(use, file):
    file('def f():\n    print("a")\n')
    assert "line numbers" in failure(use, old_str="1\tdef f():\n2\t    pr", new_str="").message
    assert "escaped" in failure(use, old_str='f():\\n    print(\\"a\\")', new_str="").message


def test_the_closest_text_is_shown(use, file):
    file(CODE)
    message = failure(use, old_str="    b = a + 10\n    return b\n", new_str="").message
    assert message == (
        "old_str is not in a.py. The closest text:\n2\t    b = a + 1\n3\t    return b"
    )
    assert "nor anything like it" in failure(use, old_str="import numpy", new_str="").message


# --- insert -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "new", "result"),
    [
        ("a\nb\n", 0, "x", "x\na\nb\n"),
        ("a\nb\n", 1, "x\ny\n", "a\nx\ny\nb\n"),
        ("a\nb", 1, "x", "a\nx\nb"),
        ("a\nb", 2, "x", "a\nb\nx\n"),
        ("", 0, "x", "x\n"),
        ("a\n", 1, "", "a\n\n"),
    ],
)
def test_lines_are_inserted_after_a_line(use, file, text, line, new, result):
    path = file(text)
    use(EDIT, path="a.py", insert_line=line, new_str=new)
    assert path.read_text() == result


def test_a_line_that_is_not_there(use, file):
    file("a\n")
    assert "0 to 1" in failure(use, insert_line=2, new_str="x").message


# --- undo ---------------------------------------------------------------------------------------


def test_edits_are_taken_back_one_by_one(use, file):
    path = file("one\r\ntwo\n")
    use(EDIT, path="a.py", old_str="one", new_str="1")
    use(EDIT, path="a.py", old_str="two", new_str="2\n3")
    output = use(EDIT, path="a.py", undo=True).output
    assert output.startswith("Took back the last edit of a.py:\n@@")
    assert path.read_bytes() == b"1\r\ntwo\n"
    use(EDIT, path="a.py", undo=True)
    assert path.read_bytes() == b"one\r\ntwo\n"
    assert failure(use, undo=True).error_id == "nothing_to_undo"
    use(EDIT, path="a.py", old_str="one", new_str="again")


def test_undo_gives_back_an_encoding_that_the_edit_hid(use, workspace):
    path = workspace / "a.py"
    path.write_bytes(b"caf\xe9")
    use(READ, path="a.py")
    use(EDIT, path="a.py", old_str="é", new_str="e")
    use(EDIT, path="a.py", undo=True)
    assert path.read_bytes() == b"caf\xe9"


def test_undo_does_not_lose_what_came_after_the_edit(use, file):
    path = file("one\n")
    use(EDIT, path="a.py", old_str="one", new_str="two")
    use(WRITE, path="a.py", content="three\n")
    assert failure(use, undo=True).error_id == "file_changed"
    assert path.read_text() == "three\n"


def test_a_text_too_long_to_keep_is_not_taken_back(use, file):
    file("one\n" + "x" * 300_000)
    result = use(EDIT, path="a.py", old_str="one", new_str="two")
    assert result.data["old_content"] is None
    assert "too long" in failure(use, undo=True).message


def test_undo_works_in_a_session_that_was_resumed(use, ctx, file):
    path = file("one\n")
    seen = FileReadObservation(path="a.py", digest=use(READ, path="a.py").data["digest"])
    events = [seen]
    for arguments in [{"old_str": "one", "new_str": "two"}, {"old_str": "two", "new_str": "three"}]:
        events.append(EDIT.observation(use(EDIT, path="a.py", **arguments)))
    events.append(EDIT.observation(use(EDIT, path="a.py", undo=True)))

    ctx.files = FileTracker(ctx.workspace)
    for event in events:
        ctx.files.observe(event)
    use(EDIT, path="a.py", undo=True)
    assert path.read_text() == "one\n"


# --- syntax -------------------------------------------------------------------------------------


def test_a_syntax_error_that_the_edit_introduced_is_told(use, file):
    file(CODE)
    output = use(EDIT, path="a.py", old_str="def g(a):", new_str="def g(a:").output
    assert "Syntax error since this change: line 6: '(' was never closed" in output
    output = use(EDIT, path="a.py", old_str="b = a", new_str="c = a").output
    assert "Syntax error" not in output


def test_its_events(use, file):
    file("one\n")
    commands = {
        "str_replace": {"old_str": "one", "new_str": "two"},
        "insert": {"insert_line": 0, "new_str": "zero"},
        "undo_edit": {"undo": True},
    }
    for command, arguments in commands.items():
        parsed = EDIT.arguments.model_validate({"path": "a.py", **arguments})
        action = EDIT.action(parsed, "")
        assert isinstance(action, FileEditAction)
        assert action.command == command
        seen = EDIT.observation(use(EDIT, path="a.py", **arguments))
        assert isinstance(seen, FileEditObservation)
        assert seen.diff


def test_a_masked_secret_in_old_str_is_explained(use, workspace):
    (workspace / "a").write_text("url = foo://me:secret@host\n")
    use(READ, path="a")
    with pytest.raises(ToolError, match="stands for a secret that is not shown to you"):
        use(EDIT, path="a", old_str="url = foo://[redacted]@host", new_str="url = 1")
