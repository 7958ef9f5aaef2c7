"""What people are told of what a session's log proves."""

from __future__ import annotations

from agentcli.evidence import Evidence, TestRun
from agentcli.ui.summary import RunSummary, closing_facts, evidence_lines
from agentcli.ui.text import cells


def told(**found: object) -> list[str]:
    return list(evidence_lines(Evidence(**found)))


def test_nothing_is_said_of_nothing():
    assert told() == []


def test_each_line_says_one_thing_and_names_its_event():
    run = TestRun(41, "pytest -q", "pytest", "passed", session_id="20261123-1200-ab12")
    lines = told(
        status="passed",
        tests=(run,),
        files_changed=("a.py", "b.py"),
        changed_at=33,
        passed_at=41,
        never_run=("tests/test_b.py",),
        not_run_again=("make test",),
    )
    assert lines == [
        "evidence: tests passed after the last change · 2 files changed, the last at event 33",
        "  event 41: pytest -q in 20261123-1200-ab12: passed",
        "  changed and never run: tests/test_b.py",
        "  failed and not fixed since: make test",
    ]


def test_many_names_are_counted_and_no_name_acts_on_the_terminal():
    names = tuple(f"tests/test_{n}.py" for n in range(8))
    [_, line] = told(status="not_run", files_changed=names, changed_at=3, never_run=names)
    assert line.endswith("test_4.py and 3 more")
    [_, line] = told(status="not_run", files_changed=names, never_run=("tests/test_\x1b[2J.py",))
    assert "\x1b" not in line


def test_the_closing_line_ends_with_it_in_a_few_words():
    for status in ("not_run", "passed", "failed", "outdated", "unknown"):
        words = Evidence(status=status).status_text
        summary = RunSummary(status="finished", session_id="s", evidence_told=words)
        assert closing_facts(summary)[-1] == words
        assert cells(words) < 40
