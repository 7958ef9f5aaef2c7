"""What tests of the terminal work with."""

from __future__ import annotations

import pexpect
import pytest

from tests.emulated import Emulated


@pytest.fixture
def talk(agent):
    """Opens a conversation in a terminal of so many columns."""
    opened = []

    def start(*arguments: str, columns: int = 80, rows: int = 24, **env: str) -> Emulated:
        terminal = Emulated(
            [*agent.command, *arguments],
            agent.workspace,
            {**agent.environment, **env},
            columns=columns,
            rows=rows,
        )
        opened.append(terminal)
        return terminal

    yield start
    for terminal in opened:
        terminal.close()


@pytest.fixture
def at_terminal(agent):
    """Starts `agent` in a pty; `options` are those of `spawn`, or variables."""
    running = []

    def start(*arguments: str, **options: object) -> pexpect.spawn:
        running.append(agent.spawn(*arguments, **options))
        return running[-1]

    yield start
    for child in running:
        child.close(force=True)
