"""Live shells and interpreters, closed after each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentcli.shell.python import PythonInterpreter
from agentcli.shell.shell import Shell
from tests.shell.shells import make_python, make_shell


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = make_shell(tmp_path)
    yield shell
    shell.close()


@pytest.fixture
def python(tmp_path: Path) -> Iterator[PythonInterpreter]:
    python = make_python(tmp_path)
    yield python
    python.close()
