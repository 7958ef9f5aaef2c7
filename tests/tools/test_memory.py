"""The memory and session_search tools as the model calls them."""

from __future__ import annotations

import pytest

from agentcli.errors import ToolError, UsageError
from agentcli.knowledge.notes import Notes
from agentcli.tools.past import MEMORY, SESSION_SEARCH


def test_notes_are_kept_changed_and_forgotten(use, ctx, tmp_path):
    ctx.notes = Notes(tmp_path / "p", tmp_path)
    result = use(MEMORY, command="add", text="Tests run with make check.")
    assert result.output == "Kept for later sessions: 1 note, 2,174 characters left."
    use(MEMORY, command="add", target="user", text="Prefers tabs.")
    use(MEMORY, command="replace", old="make check", text="Tests run with tox.")
    assert (tmp_path / "p/MEMORY.md").read_text() == "Tests run with tox.\n"
    result = use(MEMORY, command="remove", old="tox")
    assert result.output.startswith("Kept for later sessions: 0 notes")
    assert (tmp_path / "USER.md").read_text() == "Prefers tabs.\n"


def test_what_the_file_was_is_told_if_someone_changed_it(use, ctx, tmp_path):
    ctx.notes = Notes(tmp_path / "p", tmp_path)
    use(MEMORY, command="add", text="one")
    (tmp_path / "p/MEMORY.md").write_text("by hand\n")
    assert "MEMORY.md.bak" in use(MEMORY, command="add", text="two").output


def test_without_notes_or_sessions_the_tools_say_so(use):
    with pytest.raises(ToolError, match="switched off"):
        use(MEMORY, command="add", text="x")
    with pytest.raises(ToolError, match="can't be searched"):
        use(SESSION_SEARCH, query="x")


def test_a_query_without_words_is_explained_to_the_model(use, ctx):
    def refuse(query):
        raise UsageError(f"there is no word in {query!r}", hint="words must all occur")

    ctx.search_sessions = refuse
    with pytest.raises(ToolError, match="words must all occur"):
        use(SESSION_SEARCH, query="***")
    ctx.search_sessions = lambda query: f"found {query}"
    assert use(SESSION_SEARCH, query="walrus").output == "found walrus"
