"""Rules a person saved for a workspace: one text file beside the settings, one line each."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from agentcli.errors import ConfigError
from agentcli.security.rules import Rule, parse_rule

_LINE = re.compile(r"(allow|ask|deny) (.+) in (/.*)")
_MAX_BYTES = 1_000_000


@dataclass
class SavedRules:
    """`path`: the file. `notices`, after `load`: lines for the person about what was left out."""

    path: Path
    notices: list[str] = field(default_factory=list)

    def load(self, workspace: Path) -> tuple[Rule, ...]:
        """The rules of this workspace. A line that is none is named in `notices`; so is a file
        that can't be read, or that others could have written."""
        self.notices = []
        found: list[Rule] = []
        for number, line in enumerate(self._lines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            parsed = _LINE.fullmatch(line)
            if parsed is None:
                self.notices.append(f"{self.path}:{number} is not a rule; left out")
                continue
            decision, text, folder = parsed.groups()
            if folder != str(workspace):
                continue
            try:
                found.append(parse_rule(text, decision, f"{self.path}:{number}"))  # type: ignore[arg-type]
            except ConfigError as error:
                self.notices.append(f"{error.message}; left out")
        return tuple(found)

    def add(self, workspace: Path, rules: Iterable[Rule]) -> None:
        """Save `rules` for `workspace`; those that are there already are not repeated. The file is
        replaced as a whole, so that it is never half written. Raises ConfigError."""
        folder = str(workspace)
        if "\n" in folder or not folder.isprintable():
            raise ConfigError(f"{folder!a} can't stand in {self.path}", hint="allow it once")
        try:
            lines = self._read()
            new = [f"{rule.decision} {rule} in {folder}" for rule in rules]
            missing = [line for line in dict.fromkeys(new) if line not in lines]
            if missing:
                self._replace([*lines, *missing])
        except OSError as error:
            raise ConfigError(
                f"{self.path} can't be written: {error.strerror}", hint="allow it for this session"
            ) from error

    def _lines(self) -> list[str]:
        try:
            return self._read()
        except OSError as error:
            self.notices.append(f"{self.path} can't be read: {error.strerror}; left out")
            return []

    def _read(self) -> list[str]:
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return []
        with open(fd, "rb") as file:
            facts = os.fstat(file.fileno())
            if facts.st_uid not in (os.getuid(), 0) or facts.st_mode & 0o022:
                raise OSError(0, "others may write to it")
            text = file.read(_MAX_BYTES).decode("utf-8", "replace")
        return text.splitlines()

    def _replace(self, lines: list[str]) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd, name = tempfile.mkstemp(prefix=".rules-", dir=self.path.parent)
        try:
            with open(fd, "w", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in lines))
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self.path)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise
