"""Whatever a server does wrong, a run ends with the work done or with a clear error."""

from __future__ import annotations

import os

import pytest

from agentcli.shell.shell import Shell
from tests.llm.faults import CASES, play, staged


@pytest.fixture(autouse=True)
def _nothing_but_the_model(monkeypatch):
    """No shell, which no fault needs, and no waiting for a disk."""
    monkeypatch.setattr(Shell, "start", lambda self: None)
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@pytest.mark.cases(len(CASES) // 7)
@pytest.mark.parametrize(("name", "api", "streamed"), CASES.values(), ids=CASES)
def test_a_fault_ends_in_the_work_done_or_in_a_clear_error(name, api, streamed, tmp_path):
    with staged(name, api, streamed) as stage:
        outcome, session = play(stage, tmp_path)
        stage.check(outcome, tmp_path / "work", session)
