from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentcli.errors import ToolError
from agentcli.events.actions import SearchAction
from agentcli.events.observations import SearchObservation
from agentcli.tools.search import GREP
from agentcli.workspace.scope import AccessScope
from agentcli.workspace.tracking import FileTracker


@pytest.fixture(params=["ripgrep", "python"], autouse=True)
def engine(request, monkeypatch):
    """Each test runs with both, which must answer alike."""
    if request.param == "python":
        monkeypatch.setenv("PATH", "")
    elif shutil.which("rg") is None:
        pytest.skip("ripgrep is not installed")
    return request.param


def write(workspace, path, text):
    (workspace / path).parent.mkdir(parents=True, exist_ok=True)
    (workspace / path).write_bytes(text if isinstance(text, bytes) else text.encode())


def test_lines_stand_under_their_file(use, workspace):
    write(workspace, "src/b.py", "import os\n\n\tos.getcwd()\n")
    write(workspace, "a.py", "import os\r\n")
    assert use(GREP, pattern="os").output == (
        "a.py\n1:import os\nsrc/b.py\n1:import os\n3:\tos.getcwd()"
    )


def test_whole_words(use, workspace):
    write(workspace, "a", "item\nitems\nitem_id\n[item]\nother\n")
    assert use(GREP, pattern="item|oth", word=True).output == "a\n1:item\n4:[item]"


def test_context(use, workspace):
    write(workspace, "a", "1\n2\nhit\n4\n5\n6\n7\nhit\nhit\n")
    assert use(GREP, pattern="hit", context=1).output == ("a\n2-2\n3:hit\n4-4\n7-7\n8:hit\n9:hit")


def test_paths_only(use, workspace):
    write(workspace, "a", "hit\nhit\n")
    write(workspace, "b/c", "hit\n")
    write(workspace, "d", "miss\n")
    result = use(GREP, pattern="hit", files_only=True)
    assert result.output == "a\nb/c"
    assert result.data["matches"] == 2
    assert use(GREP, pattern="hit", files_only=True, max_results=1).output == (
        "a\n[1 of 2 files; narrow by path or glob, or raise max_results]"
    )


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("*.py", ["a.py", "src/b.py"]),
        ("src/**", ["src/b.py", "src/c.ts"]),
        ("*.{ts,js}", ["src/c.ts"]),
        ("!*.py", ["src/c.ts"]),
        ("*.log", []),
    ],
)
def test_only_some_files(use, workspace, glob, found):
    for path in ["a.py", "src/b.py", "src/c.ts", "d.log"]:
        write(workspace, path, "hit\n")
    write(workspace, ".gitignore", "*.log\n")
    output = use(GREP, pattern="hit", glob=glob, files_only=True).output
    assert output == ("\n".join(found) or f"No matches in ., files {glob}")


def test_ignored_binary_and_git_s_own_files_are_skipped(use, workspace):
    for path in ["a", "build/b", "x/build/c", ".git/config", ".hidden", "sub/d.log", "sub/e"]:
        write(workspace, path, "hit\n")
    write(workspace, "binary", b"hit\0\n")
    write(workspace, ".gitignore", "build/\n")
    write(workspace, "sub/.ignore", "*.log\n")
    (workspace / "link").symlink_to("a")
    os.mkfifo(workspace / "fifo")
    assert use(GREP, pattern="hit", files_only=True).output == ".hidden\na\nsub/e"


def test_an_ignored_folder_or_file_that_is_named_is_searched(use, workspace):
    write(workspace, "build/a", "hit\n")
    write(workspace, ".gitignore", "build\n")
    assert use(GREP, pattern="hit", path="build").output == "build/a\n1:hit"
    assert use(GREP, pattern="hit", path="build/a").output == "build/a\n1:hit"
    assert use(GREP, pattern="hit", path="build/a", glob="*.py").output == (
        "No matches in build/a, files *.py"
    )


def test_rules_above_the_folder_that_is_searched_hold(use, workspace):
    write(workspace, "src/a.log", "hit\n")
    write(workspace, "src/a.py", "hit\n")
    write(workspace, ".gitignore", "*.log\n")
    assert use(GREP, pattern="hit", path="src").output == "src/a.py\n1:hit"


def test_what_begins_with_a_dash_is_a_pattern(use, workspace):
    write(workspace, "-a", "--files\n")
    assert use(GREP, pattern="--files", path="-a").output == "-a\n1:--files"


def test_ends_of_lines(use, workspace):
    write(workspace, "a", "one\r\ntwo\r\n")
    write(workspace, "b", "one\nonely")
    assert use(GREP, pattern="^one$").output == "a\n1:one\nb\n1:one"


def test_case(use, workspace):
    write(workspace, "a", "Hit\n")
    assert use(GREP, pattern="hit").output == "No matches in ."
    assert use(GREP, pattern="hit", ignore_case=True).output == "a\n1:Hit"


def test_patterns_over_several_lines(use, workspace):
    write(workspace, "a", "x\nfoo(\n  1,\n)\nfoo(\n")
    assert use(GREP, pattern=r"foo\(\n +1").output == "a\n2:foo(\n3:  1,"


def test_patterns_that_look_around(use, workspace):
    write(workspace, "a", "foobar\nfoobaz\n")
    assert use(GREP, pattern="foo(?!bar)").output == "a\n2:foobaz"
    assert use(GREP, pattern=r"(.)\1").output == "a\n1:foobar\n2:foobaz"


def test_classes_as_grep_knows_them(use, workspace):
    write(workspace, "a", "a 1\nb\t\n")
    assert use(GREP, pattern="[[:space:]][[:digit:]]").output == "a\n1:a 1"


def test_a_bad_pattern_comes_back_with_its_literal_form(use):
    with pytest.raises(ToolError, match=r"unterminated.* position 3\. .*itself: foo\\\(a\\\.b"):
        use(GREP, pattern="foo(a.b")
    for pattern in ["", "a\0b", "\ud800"]:
        with pytest.raises(ToolError, match="empty or has characters"):
            use(GREP, pattern=pattern)


def test_long_lines_are_cut(use, workspace):
    write(workspace, "a", "hit " + "é" * 5000 + "\n")
    assert use(GREP, pattern="hit").output == "a\n1:hit " + "é" * 296 + " […]"


def test_one_file_does_not_hide_the_others(use, workspace):
    write(workspace, "big", "hit\n" * 500)
    write(workspace, "small", "hit\n" * 2)
    result = use(GREP, pattern="hit", max_results=10)
    assert result.output.splitlines() == [
        "big",
        *[f"{n}:hit" for n in range(1, 9)],
        "[492 more in this file]",
        "small",
        "1:hit",
        "2:hit",
        "[10 of 502 matches in 2 files; narrow by path or glob, or raise max_results]",
    ]
    assert result.data == {"matches": 502, "truncated": True}


def test_context_of_matches_that_are_left_out_is_left_out(use, workspace):
    write(workspace, "a", "1\nhit\n3\n4\n5\nhit\n7\n")
    assert use(GREP, pattern="hit", context=1, max_results=1).output.splitlines()[:5] == [
        "a",
        "1-1",
        "2:hit",
        "3-3",
        "[1 more in this file]",
    ]


def test_the_answer_is_bounded(use, ctx, workspace):
    write(workspace, "a", ("x" * 250 + "\n") * 1000)
    output = use(GREP, pattern="x", max_results=1000).output
    assert len(output) < ctx.max_output_chars + 500
    assert "of 1000 matches in 1 files" in output.splitlines()[-1]


def test_a_flood_of_matches_stops(use, workspace):
    write(workspace, "a", "x\n" * 20_000)
    assert "stopped at 10000 matches" in use(GREP, pattern="x").output


def test_names_and_texts_of_any_encoding(use, workspace):
    write(workspace, os.fsdecode(b"caf\xe9.txt"), b"hit caf\xe9\n")
    write(workspace, "new\nline:1.txt", "hit\n")
    write(workspace, "utf16.txt", "hit é\n".encode("utf-16"))
    assert use(GREP, pattern="hit").output == (
        "$'caf\\xe9.txt'\n1:hit café\n$'new\\nline:1.txt'\n1:hit\nutf16.txt\n1:hit é"
    )


def test_what_can_not_be_searched(use, workspace):
    with pytest.raises(ToolError, match="There is no nowhere"):
        use(GREP, pattern="x", path="nowhere")
    os.mkfifo(workspace / "fifo")
    with pytest.raises(ToolError, match="fifo is not a file or folder"):
        use(GREP, pattern="x", path="fifo")


def test_its_events(use, workspace):
    write(workspace, "a", "hit\n")
    arguments = GREP.arguments.model_validate({"pattern": "hit", "context": 2})
    assert GREP.action(arguments, "") == SearchAction(pattern="hit", options={"context": 2})
    found = GREP.observation(use(GREP, pattern="hit", context=2))
    assert found == SearchObservation(content="a\n1:hit", matches=1)


def test_processes_are_not_searched(use):
    assert "No matches in /proc" in use(GREP, pattern=".", path="/proc").output


def test_a_link_to_a_hidden_file_is_seen_by_all_that_ask_at_once(tmp_path):
    hidden = tmp_path / "hidden"
    (hidden / "crowded").mkdir(parents=True)
    (tmp_path / "keys").write_text("key")
    (tmp_path / "link").hardlink_to(tmp_path / "keys")
    for number in range(12_000):
        (hidden / "crowded" / str(number)).touch()
    places = (hidden, tmp_path / "keys")
    tracker = FileTracker(
        tmp_path, AccessScope(tmp_path, tmp_path, writable=(tmp_path,), hidden=places)
    )

    def is_refused(_: int) -> bool:
        try:
            tracker.read_bytes(tmp_path / "link")
        except ToolError as error:
            return error.error_id == "hidden_path"
        return False

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(is_refused, range(8)))


def test_what_is_large_is_searched_by_ripgrep_and_told_else(use, workspace, engine):
    write(workspace, "large.log", "x" * 79 + "\n" + "another line\n" * 1_000_000 + "needle\n")
    output = use(GREP, pattern="needle").output
    if engine == "ripgrep":
        assert output == "large.log\n1000002:needle"
    else:
        assert "1 files could not be read or are over 10 MB" in output


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("--verbose", "run --verbose now"),
        (r"\$HOME", "cd $HOME/bin"),
        (r"foo\(", "foo(bar)"),
        ("-x", "tar -x"),
        (r"(?:item|--all)", "x --all"),
        (r"\w+_id", "user_id"),
        ("é", "(é)"),
    ],
)
def test_a_word_may_begin_and_end_with_anything(use, workspace, pattern, line):
    write(workspace, "a", f"{line}\n")
    assert use(GREP, pattern=pattern, word=True).output == f"a\n1:{line}"


@pytest.mark.parametrize(
    ("pattern", "line"), [("--verb", "--verbose"), (r"\$HOM", "$HOME"), (r"oo\(", "foo(")]
)
def test_a_word_neither_begins_nor_ends_within_one(use, workspace, pattern, line):
    write(workspace, "a", f"{line}\n")
    assert use(GREP, pattern=pattern, word=True).output == "No matches in ."


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        (r"foo\|bar", r"[\| is a literal |; alternatives are written a|b]"),
        ("$HOME", r"[$ is the end of a line; \$ is the character]"),
        ("a$b|c", r"[$ is the end of a line; \$ is the character]"),
        ("a^b", r"[^ is the start of a line; \^ is the character]"),
        (r"(^a|^b)c$", ""),
        (r"[$^]\$[^|]|^x", ""),
        (r"(?i:^a)\\|x", ""),
    ],
)
def test_a_pattern_that_means_something_else_gets_a_remark(use, workspace, pattern, told):
    write(workspace, "a", "foo bar HOME\n")
    assert use(GREP, pattern=pattern).output == "No matches in ." + f"\n{told}" * bool(told)


@pytest.mark.parametrize("before", [150, 250, 1_500, 1_000_000])
def test_a_match_in_a_long_line_is_shown(use, workspace, before):
    write(workspace, "a", "x\n" + "é" * before + "the needle" + " z" * 500_000 + "\nlast\n")
    lines = use(GREP, pattern="the needle", context=1).output.splitlines()
    assert lines[:2] == ["a", "1-x"]
    assert lines[2].startswith("2:")
    assert lines[2].endswith(" […]")
    assert "éthe needle z" in lines[2]
    assert len(lines[2]) < 320
    assert lines[3] == "3-last"


@pytest.mark.parametrize(
    ("data", "pattern"),
    [
        ("caf\xe9 hit".encode("latin-1"), "caf."),
        ("caf\xe9 hit".encode("latin-1"), "café"),
        ("caf\xe9 hit".encode("latin-1"), r"\w{4} "),
        ("caf\xe9 hit".encode("utf-16"), "café"),
        ("cafe\u0301 hit".encode(), "café"),
        ("café hit".encode(), "cafe\u0301"),
        (b"\xef\xbb\xbfcaf\xc3\xa9 hit", "^café"),
    ],
)
def test_letters_are_found_in_any_encoding_and_form(use, workspace, data, pattern):
    write(workspace, "deep/in/a", data)
    write(workspace, "image.png", b"\x89PNG\r\n\x1a\n\0\0\xe9" + b"\xe9" * 100)
    assert use(GREP, pattern=pattern, files_only=True).output == "deep/in/a"


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("a--b", "1:a--b"),
        ("a&&b", "2:a&&b"),
        ("a~~b", "3:a~~b"),
        (r"\[--", "4:[--"),
        ("[a&&b]{2}", "2:a&&b"),
        ("[[]x", "5:[x"),
        ("[[ab]x", "5:[x\n6:bx"),
    ],
)
def test_what_only_brackets_would_change_is_the_same_everywhere(use, workspace, pattern, found):
    write(workspace, "a", "a--b\na&&b\na~~b\n[--\n[x\nbx\n")
    assert use(GREP, pattern=pattern).output == f"a\n{found}"


def test_line_ends_in_patterns_are_those_of_the_file(use, workspace):
    write(workspace, "a", "one\r\ntwo\r\n")
    assert use(GREP, pattern=r"one\ntwo").output == "a\n1:one\n2:two"
