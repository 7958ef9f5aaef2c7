"""What tests of the terminal work with."""

from __future__ import annotations

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
