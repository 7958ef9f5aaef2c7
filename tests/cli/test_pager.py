"""Long lists go through the person's pager at a terminal, and nowhere else."""

from __future__ import annotations

import pytest

from tests.emulated import Emulated
from tests.server import Reply

PAGER = "sh -c 'echo PAGED; cat; echo END'"


@pytest.fixture
def worked(agent, serve):
    answer = "\n\n".join(f"line {number}" for number in range(40))
    agent.use(serve([Reply(answer)]))
    assert agent("run", "count").returncode == 0
    return agent


def shown(agent, *arguments: str, rows: int = 24, **env: str) -> str:
    terminal = Emulated(
        [*agent.command, *arguments],
        agent.workspace,
        {**agent.environment, "PAGER": PAGER, **env},
        rows=rows,
    )
    assert terminal.ended() == 0
    return terminal.raw.decode()


def test_what_is_longer_than_the_screen_goes_through_the_pager(worked):
    show = ("sessions", "show")
    paged = shown(worked, *show)
    assert paged.startswith("PAGED")
    assert paged.rstrip().endswith("END")
    assert "line 0" in paged
    for straight in (
        shown(worked, *show, rows=120),
        shown(worked, *show, "--no-pager"),
        shown(worked, *show, PAGER=""),
        shown(worked, *show, PAGER="no-such-pager"),
        shown(worked, *show, PAGER="less 'x"),
        shown(worked, *show, TERM="dumb"),
        shown(worked, "sessions", "list"),
        worked(*show).stdout,
    ):
        assert "PAGED" not in straight
        assert straight


def test_a_pager_that_is_left_early_does_no_harm(worked):
    assert shown(worked, "sessions", "show", PAGER="head -1")
    assert "PAGED" in shown(worked, "sessions", "list", rows=1)
