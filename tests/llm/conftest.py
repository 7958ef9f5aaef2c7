"""What tests of models share."""

from __future__ import annotations

import os

import pytest

from agentcli.shell.shell import Shell


@pytest.fixture
def nothing_but_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """No shell, which no fault of a server needs, and no waiting for a disk."""
    monkeypatch.setattr(Shell, "start", lambda self: None)
    monkeypatch.setattr(os, "fsync", lambda fd: None)
