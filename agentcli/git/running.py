"""git run for an answer, several questions side by side."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Questions:
    """Run in `folder` with nothing of our environment but what they are given. All answers have to
    be there at `deadline`, a moment of the monotonic clock."""

    folder: Path
    deadline: float

    def start(
        self, command: Sequence[str], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def answer(self, process: subprocess.Popen[bytes], ok: int = 0) -> bytes:
        """What git printed. Raises SubprocessError where it took too long, or failed with another
        exit code than `ok`."""
        try:
            out, _ = process.communicate(timeout=max(self.deadline - time.monotonic(), 0.01))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        if process.returncode not in (0, ok):
            raise subprocess.CalledProcessError(process.returncode, "git")
        return out
