"""Runs git on a checkpoint store, immune to settings of the user or of a repository."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path
from typing import IO

from agentcli.errors import SessionError
from agentcli.git import safe
from agentcli.system.programs import find_program


class CheckpointError(SessionError):
    """A snapshot that can't be taken, read or restored."""


_MOST_MEMORY = 1 << 30
"""Bytes of memory for git to unpack an object, which may be crafted to exhaust all there is."""


class Git:
    """git on the bare repository `store`, which can also see the objects in the folder `more`.
    Raises CheckpointError if git is not installed."""

    def __init__(self, store: Path, more: Path) -> None:
        self._store = store
        self._more = more
        self._batch: subprocess.Popen[bytes] | None = None

    def run(
        self,
        *arguments: str,
        data: bytes = b"",
        work_tree: Path | None = None,
        ok: int = 0,
        sees_more: bool = False,
    ) -> bytes:
        """Run git and return its output. An exit code above `ok` raises CheckpointError."""
        done = subprocess.run(
            _command(*arguments),
            input=data,
            capture_output=True,
            env=self._environment(work_tree, sees_more=sees_more),
            cwd=work_tree or self._store,
            start_new_session=True,
        )
        if not 0 <= done.returncode <= ok:
            complaint = os.fsdecode(done.stderr).strip() or f"exit code {done.returncode}"
            raise CheckpointError(f"git {arguments[0]} failed on {self._store}: {complaint}")
        return done.stdout

    def read(self, oid: bytes, largest: int) -> tuple[bytes, bytes] | None:
        """Return kind and content of an object from wherever git finds it, not checked against its
        id; None when it is missing or has more than `largest` bytes."""
        asked, answers = self._pipes()
        try:
            asked.write(oid.hex().encode() + b"\n")
            asked.flush()
        except BrokenPipeError:
            return None
        header = answers.readline().split()
        if len(header) != 3:
            return None
        size = int(header[2])
        if size > largest:
            self.close()
            return None
        data = answers.read(size + 1)[:size]
        return (header[1], data) if len(data) == size else None

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        if self._batch is None:
            self._batch = subprocess.Popen(
                _command("cat-file", "--batch"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=self._environment(None, sees_more=True),
                cwd=self._store,
                start_new_session=True,
            )
            if hasattr(resource, "prlimit"):
                resource.prlimit(self._batch.pid, resource.RLIMIT_DATA, (_MOST_MEMORY,) * 2)
        assert self._batch.stdin is not None
        assert self._batch.stdout is not None
        return self._batch.stdin, self._batch.stdout

    def close(self) -> None:
        if self._batch is not None:
            self._batch.kill()
            self._batch.communicate()
            self._batch = None

    def _environment(self, work_tree: Path | None, *, sees_more: bool) -> dict[str, str]:
        environment = {**safe.ENVIRONMENT, "GIT_DIR": str(self._store)}
        if sees_more:
            # Quoted, because a colon in the path would split it.
            quoted = str(self._more).replace("\\", "\\\\").replace('"', '\\"')
            environment["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = f'"{quoted}"'
        if work_tree is not None:
            environment["GIT_WORK_TREE"] = str(work_tree)
        return environment


def has_git() -> bool:
    return find_program("git") is not None


def _command(*arguments: str) -> list[str]:
    binary = find_program("git")
    if binary is None:
        raise CheckpointError("there is no git on PATH", hint="install git, then try again")
    return safe.command(binary, *arguments)
