from __future__ import annotations

import pytest

from agentcli.errors import ToolError
from agentcli.events.actions import FileWriteAction
from agentcli.events.observations import FileWriteObservation
from agentcli.tools.read import TOOL as READ
from agentcli.tools.write import TOOL


def test_a_new_file_and_its_folders(use, workspace):
    result = use(TOOL, path="src/pkg/a.txt", content="one\ntwo\n")
    assert result.output == "Created src/pkg/a.txt: 2 lines."
    assert (workspace / "src/pkg/a.txt").read_text() == "one\ntwo\n"
    assert result.data["prev_exist"] is False
    assert result.data["diff"] == (
        "--- /dev/null\n+++ b/src/pkg/a.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n"
    )


def test_a_file_is_replaced_after_it_was_read(use, workspace):
    (workspace / "a").write_text("1\n2\n3\n4\n")
    use(READ, path="a")
    result = use(TOOL, path="a", content="1\nTWO\n3\n4\n5\n6\n")
    assert result.output == "Replaced a: 6 lines (+3 -1, at lines 2, 5-6)."
    assert "-2\n+TWO\n" in result.data["diff"]


def test_what_was_written_may_be_written_again(use):
    use(TOOL, path="a", content="1\n")
    assert use(TOOL, path="a", content="1\n").output == "Replaced a: 1 line, as before."


def test_a_masked_secret_is_not_written_over_the_real_one(use, workspace):
    """What is read shows secrets as [redacted]; written back whole, the file would lose them."""
    (workspace / ".env").write_text("KEY=real\nPORT=1\n")
    use(READ, path=".env")
    with pytest.raises(ToolError, match="would destroy the secret"):
        use(TOOL, path=".env", content="KEY=[redacted]\nPORT=2\n")
    assert (workspace / ".env").read_text() == "KEY=real\nPORT=1\n"
    use(TOOL, path="mask.py", content="MASK = '[redacted]'\n")
    use(TOOL, path="mask.py", content="MASK = '[redacted]' \n")


def test_a_file_that_was_not_read_or_has_changed_is_kept(use, workspace):
    (workspace / "a").write_text("mine\n")
    with pytest.raises(ToolError, match="not read in this session"):
        use(TOOL, path="a", content="yours\n")
    use(READ, path="a")
    (workspace / "a").write_text("changed by someone\n")
    with pytest.raises(ToolError, match="had changed since you last saw it"):
        use(TOOL, path="a", content="yours\n")
    assert (workspace / "a").read_text() == "changed by someone\n"


def test_the_form_of_a_replaced_file_stays(use, workspace):
    (workspace / "a").write_bytes("\ufeffä\r\nb\r\n".encode())
    use(READ, path="a")
    use(TOOL, path="a", content="ö\nc")
    assert (workspace / "a").read_bytes() == "\ufeffö\r\nc".encode()


def test_a_binary_file_is_not_replaced(use, workspace):
    (workspace / "a").write_bytes(b"\0")
    with pytest.raises(ToolError, match="binary"):
        use(TOOL, path="a", content="text")


def test_a_syntax_error_is_told(use):
    output = use(TOOL, path="a.py", content="def f(:\n    pass\n").output
    assert "Syntax error since this change: line 1: invalid syntax" in output
    assert "Syntax error" in use(TOOL, path="a.json", content='{"a": }').output
    assert "Syntax error" in use(TOOL, path="a.toml", content="a = \n").output
    assert "Syntax error" not in use(TOOL, path="b.py", content='x = "\\d"\n').output


def test_a_missing_newline_at_the_end_shows_in_the_diff(use):
    use(TOOL, path="a", content="1\n")
    diff = use(TOOL, path="a", content="1").data["diff"]
    assert diff.endswith("-1\n+1\n\\ No newline at end of file\n")


def test_the_diff_of_long_files_is_bounded(use):
    use(TOOL, path="a", content="x\n" * 30_000)
    diff = use(TOOL, path="a", content="x\n" * 14_000 + "y\n" * 16_000).data["diff"]
    assert diff.startswith("--- a/a\n+++ b/a\n@@ -14001,16000 +14001,16000 @@\n-x\n")
    assert len(diff) < 61_000
    assert diff.endswith("[diff cut]\n")


def test_its_events(use):
    arguments = TOOL.arguments.model_validate({"path": "a", "content": "1\n"})
    assert TOOL.action(arguments, "") == FileWriteAction(path="a", content="1\n")
    seen = TOOL.observation(use(TOOL, path="a", content="1\n"))
    assert isinstance(seen, FileWriteObservation)
    assert seen.path == "a"
