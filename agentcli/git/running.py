"""Runs git for its answers, several at once."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


def setting_options(settings: Mapping[str, str]) -> list[str]:
    """Return the options of git that apply these settings."""
    return [word for item in settings.items() for word in ("-c", "=".join(item))]


@dataclass(frozen=True)
class GitQueries:
    """git commands run in `folder` with no environment but what each is given. All answers must
    arrive by `deadline`, a time of the monotonic clock."""

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

    def output(self, process: subprocess.Popen[bytes], ok: int = 0) -> bytes:
        """Return what git printed. Raises SubprocessError if it took too long, or ended with an
        exit code other than 0 and `ok`."""
        try:
            out, _ = process.communicate(timeout=max(self.deadline - time.monotonic(), 0.01))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        if process.returncode not in (0, ok):
            raise subprocess.CalledProcessError(process.returncode, "git")
        return out
