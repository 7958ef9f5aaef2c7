"""Takes away what git must not meet, and keeps account of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from agentcli.git.quarantine import Quarantine
from agentcli.git.seal import Finding, why


@dataclass
class Removals:
    """What was taken away goes to the `quarantine`; `findings` say what it was."""

    quarantine: Quarantine
    findings: list[Finding] = field(default_factory=list)

    def take(self, path: Path, folder: int, name: str) -> None:
        """Take away what is at `name` in the `folder` at `path`."""
        done, kept = "set aside", None
        try:
            kept = self.quarantine.take(folder, name)
        except FileNotFoundError:
            return
        except OSError as error:
            done = f"could not be set aside: {error.strerror or error}"
        self._add(path, name, done, kept)

    def replace(
        self, path: Path, folder: int, name: str, old: bytes, new: bytes, done: str
    ) -> None:
        """Replace the content `old` of a file; `done` says for people how they differ."""
        kept = None
        try:
            kept = self.quarantine.replace(folder, name, old, new)
        except FileNotFoundError:
            return
        except OSError as error:
            done = f"could not be rewritten: {error.strerror or error}"
        self._add(path, name, done, kept)

    def _add(self, path: Path, name: str, done: str, kept: Path | None) -> None:
        self.findings.append(Finding(path / name, done, why(f"{path.name}/{name}"), kept))
