from __future__ import annotations

import os

import pytest

from agentcli.errors import ToolError
from agentcli.events.actions import GlobAction
from agentcli.events.observations import SearchObservation
from agentcli.tools.search import GLOB


@pytest.fixture
def make(workspace):
    """`make("a", "src/b")` makes these files, each newer than the one before."""

    def files(*paths: str) -> None:
        for age, path in enumerate(paths):
            (workspace / path).parent.mkdir(parents=True, exist_ok=True)
            (workspace / path).touch()
            os.utime(workspace / path, (age, age))

    return files


def test_the_newest_come_first(use, make):
    make("a.py", "src/b.py", "c.txt", "src/deep/d.py")
    assert use(GLOB, pattern="*.py").output == "src/deep/d.py\nsrc/b.py\na.py"
    assert use(GLOB, pattern="src/**/*.py").output == "src/deep/d.py\nsrc/b.py"
    assert use(GLOB, pattern="*.py", path="src").output == "src/deep/d.py\nsrc/b.py"
    assert use(GLOB, pattern="src/*").output == "src/b.py"
    assert use(GLOB, pattern="src/b.py").output == "src/b.py"


def test_files_of_one_age_come_by_name(use, workspace):
    for name in "bca":
        (workspace / name).touch()
        os.utime(workspace / name, (0, 0))
    assert use(GLOB, pattern="*").output == "a\nb\nc"


def test_absolute_patterns_and_folders_outside(use, make, workspace, tmp_path):
    make("a.py")
    (tmp_path / "other.py").touch()
    assert use(GLOB, pattern=f"{workspace}/*.py").output == "a.py"
    assert use(GLOB, pattern="../*.py").output == "../other.py"
    assert use(GLOB, pattern="*.py", path=str(tmp_path)).output.splitlines() == [
        f"{tmp_path}/other.py",
        "a.py",
    ]


def test_ignored_files_are_left_out_unless_their_folder_is_named(use, make, workspace):
    make("a.js", "node_modules/lib/b.js", ".github/c.js", ".git/d.js")
    (workspace / ".gitignore").write_text("node_modules\n")
    assert use(GLOB, pattern="*.js").output == ".github/c.js\na.js"
    assert use(GLOB, pattern="node_modules/lib/*.js").output == "node_modules/lib/b.js"


def test_folders_are_found_when_no_file_is(use, make):
    make("app/migrations/a.py", "lib/migrations/b.py")
    found = use(GLOB, pattern="**/migrations").output
    assert sorted(found.splitlines()) == ["app/migrations/", "lib/migrations/"]


def test_results_are_bounded(use, make):
    make(*(f"{number:03}" for number in range(210)))
    result = use(GLOB, pattern="*")
    assert result.output.startswith("209\n208\n")
    assert result.output.endswith("\n010\n[200 of 210; narrow the pattern]")
    assert result.data == {"matches": 210, "truncated": True}


def test_names_that_can_not_be_shown(use, make):
    make(os.fsdecode(b"caf\xe9.txt"), "new\nline.txt")
    assert use(GLOB, pattern="*.txt").output == "$'new\\nline.txt'\n$'caf\\xe9.txt'"


def test_nothing_found_and_nothing_to_search(use, make):
    make("a.py")
    assert use(GLOB, pattern="*.rs").output == "No files match *.rs in ."
    assert use(GLOB, pattern="nowhere/*.rs").output == "No files match nowhere/*.rs in ."
    with pytest.raises(ToolError, match="There is no nowhere"):
        use(GLOB, pattern="*", path="nowhere")
    with pytest.raises(ToolError, match="can't be the name"):
        use(GLOB, pattern="a\0b/*")
    with pytest.raises(ToolError, match="is a file"):
        use(GLOB, pattern="*", path="a.py")


def test_its_events(use, make):
    make("a.py")
    arguments = GLOB.arguments.model_validate({"pattern": "*.py"})
    assert GLOB.action(arguments, "") == GlobAction(pattern="*.py")
    found = GLOB.observation(use(GLOB, pattern="*.py"))
    assert found == SearchObservation(content="a.py", matches=1)


def test_composed_and_decomposed_letters_are_the_same(use, workspace):
    (workspace / "cafe\u0301").mkdir()
    (workspace / "cafe\u0301/e\u0301te\u0301.md").touch()
    for pattern in ["caf\u00e9/*", "*/\u00e9t\u00e9.md", "caf?/?t?.md", "cafe\u0301/*"]:
        assert use(GLOB, pattern=pattern).output == "cafe\u0301/e\u0301te\u0301.md"


def test_a_name_in_another_unicode_form_is_shown_by_its_bytes(use, workspace):
    (workspace / "cafe\u0301").mkdir()
    with pytest.raises(ToolError) as told:
        use(GLOB, pattern="*", path="caf\u00e9")
    shown = r"$'cafe\xcc\x81'"
    assert str(told.value).endswith(f"Its letters are stored in another Unicode form: {shown}")
    (workspace / "cafe\u0301/a").touch()
    assert use(GLOB, pattern="*", path=shown).output == "cafe\u0301/a"


def test_no_pattern_takes_long_or_fails(use, workspace):
    (workspace / "a").touch()
    for pattern in [
        "[{a,b}]/" * 100,
        "{a,b}" * 190,
        "**/" * 300 + "b",
        "[[:",
        "a[]",
        "\\",
        "{" * 500,
    ]:
        assert "No files match" in use(GLOB, pattern=pattern).output
