"""Calls of git on a checkpoint store that nothing of the user's or a repository's can influence."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from agentcli import safe_git
from agentcli.errors import SessionError
from agentcli.programs import find_program


class CheckpointError(SessionError):
    """A snapshot that can't be taken, read or restored."""


class Git:
    """git on the bare repository `store`. Raises CheckpointError where there is no git."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._batch: subprocess.Popen[bytes] | None = None

    def run(
        self, *arguments: str, data: bytes = b"", work_tree: Path | None = None, ok: int = 0
    ) -> bytes:
        """What git prints. An exit code above `ok` raises CheckpointError."""
        done = subprocess.run(
            self._command(*arguments),
            input=data,
            capture_output=True,
            env=self._environment(work_tree),
            cwd=work_tree or self._store,
            start_new_session=True,
        )
        if not 0 <= done.returncode <= ok:
            complaint = os.fsdecode(done.stderr).strip() or f"exit code {done.returncode}"
            raise CheckpointError(f"git {arguments[0]} failed on {self._store}: {complaint}")
        return done.stdout

    def read(self, oid: bytes) -> bytes | None:
        """The bytes of an object from wherever git finds it; None when it is nowhere."""
        if self._batch is None:
            self._batch = subprocess.Popen(
                self._command("cat-file", "--batch"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=self._environment(None),
                cwd=self._store,
                start_new_session=True,
            )
        asked, answers = self._batch.stdin, self._batch.stdout
        assert asked is not None
        assert answers is not None
        try:
            asked.write(oid.hex().encode() + b"\n")
            asked.flush()
        except BrokenPipeError:
            return None
        header = answers.readline().split()
        if len(header) != 3:
            return None
        size = int(header[2])
        data = answers.read(size + 1)[:size]
        return data if len(data) == size else None

    def close(self) -> None:
        if self._batch is not None:
            self._batch.kill()
            self._batch.communicate()
            self._batch = None

    def _command(self, *arguments: str) -> list[str]:
        return safe_git.command(_binary(), *arguments)

    def _environment(self, work_tree: Path | None) -> dict[str, str]:
        environment = {**safe_git.ENVIRONMENT, "GIT_DIR": str(self._store)}
        if work_tree is not None:
            environment["GIT_WORK_TREE"] = str(work_tree)
        return environment


def has_git() -> bool:
    return find_program("git") is not None


def _binary() -> str:
    binary = find_program("git")
    if binary is None:
        raise CheckpointError("there is no git on PATH", hint="install git, then try again")
    return binary
