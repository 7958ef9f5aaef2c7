"""What a search must not see, by the user's rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.security.policy.rule import reading_rules
from agentcli.security.policy.rules import parse_rule
from agentcli.workspace.guard import ReadingRules
from agentcli.workspace.scope import AccessScope
from agentcli.workspace.tracking import FileTracker


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path.resolve() / "work"
    (work / "notes").mkdir(parents=True)
    return work


def tracker(work: Path, *rules: str) -> FileTracker:
    scope = AccessScope(work, work.parent, (work,))
    parsed = [parse_rule(text, decision, "x") for decision, text in map(str.split, rules)]
    found = reading_rules(parsed, work, work.parent, asks=True, scope=scope)
    files = FileTracker(work, scope)
    files.guard.rules = lambda: found
    return files


def test_a_folder_that_the_user_was_asked_about_is_searched(work):
    files = tracker(work, "ask read(notes/**)", "deny read(*.pem)")
    note, key = str(work / "notes/a"), str(work / "notes/a.pem")
    everywhere = files.guard.unseen_below(work, "grep", unasked=True)
    assert note in everywhere
    assert key in everywhere
    there = files.guard.unseen_below(work / "notes", "grep", unasked=True)
    assert note not in there
    assert key in there


def test_a_search_without_rules_compares_no_names(work):
    assert isinstance(FileTracker(work).guard.unseen_below(work), frozenset)
    assert isinstance(tracker(work).guard.unseen_below(work, "grep", unasked=True), frozenset)
    assert isinstance(tracker(work, "allow read(x)").guard.unseen_below(work), frozenset)
    assert ReadingRules().objection(str(work / "x"), "grep", unasked=True) == ""
