"""Rules that a user saved for workspaces: a text file beside the settings, one rule per line."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentcli.errors import ConfigError
from agentcli.security.policy.rule import Pattern, Rule
from agentcli.security.policy.rules import check_rule, parse_rule
from agentcli.workspace.private import locked, open_regular, ownership_fault, replace_durably

_LINE = re.compile(r"(allow|ask|deny) (.+) in (/.*)")
_MAX_BYTES = 1_000_000


@dataclass
class SavedRules:
    """The saved rules in the file `path`. After `load`, `notices` tells the user what was left
    out."""

    path: Path
    notices: list[str] = field(default_factory=list)

    def load(self, workspace: Path, tools: Mapping[str, Pattern]) -> tuple[Rule, ...]:
        """Return the rules of this workspace for `tools` (see `check_rule`). Invalid lines are
        reported in `notices`, and so is a file that can't be read or that others could have
        written."""
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
                origin = f"{self.path}:{number}"
                rule = parse_rule(text, decision, origin, here=True)  # type: ignore[arg-type]
                found.append(check_rule(rule, tools))
            except ConfigError as error:
                self.notices.append(f"{error.message}; left out")
        return tuple(found)

    def add(self, workspace: Path, rules: Iterable[Rule]) -> None:
        """Save `rules` for `workspace`, without duplicates. The file is replaced as a whole, so
        that it is never half written. Raises ConfigError."""
        folder = str(workspace)
        if "\n" in folder or not folder.isprintable():
            raise ConfigError(f"{folder!a} can't be saved in {self.path}: it is not printable")
        new = [f"{rule.decision} {rule} in {folder}".encode() for rule in rules]
        self._change(lambda lines: [*lines, *(e for e in dict.fromkeys(new) if e not in lines)])

    def remove(self, workspace: Path, text: str) -> bool:
        """Remove the rule whose `str` is `text` from `workspace`; return False if there is none.
        Raises ConfigError."""

        def others(lines: list[bytes]) -> list[bytes]:
            return [line for line in lines if not _is_rule(line, text, str(workspace))]

        return self._change(others)

    def _change(self, change: Callable[[list[bytes]], list[bytes]]) -> bool:
        """Apply `change` to the lines of the file; return whether they differ."""
        # If the user made the file a symlink, replace its target.
        path = Path(os.path.realpath(self.path))
        try:
            with locked(path):
                lines = self._read().splitlines()
                changed = change(lines)
                if changed != lines:
                    replace_durably(path, b"\n".join([*changed, b""]))
        except OSError as error:
            raise ConfigError(f"{self.path} can't be written: {error.strerror}") from error
        return changed != lines

    def _lines(self) -> list[str]:
        try:
            return self._read().decode("utf-8", "replace").splitlines()
        except OSError as error:
            self.notices.append(f"{self.path} can't be read: {error.strerror}; left out")
            return []

    def _read(self) -> bytes:
        """Read the file. Raises OSError, also if others could have written it."""
        try:
            with open_regular(self.path, follow=True) as file:
                if fault := ownership_fault(os.fstat(file.fileno())):
                    raise OSError(errno.EPERM, fault)
                text = file.read(_MAX_BYTES + 1)
        except FileNotFoundError:
            return b""
        if len(text) > _MAX_BYTES:
            raise OSError(errno.EFBIG, f"it is larger than {_MAX_BYTES:,} bytes")
        return text


def _is_rule(line: bytes, text: str, folder: str) -> bool:
    """Return whether the line saves this rule for the folder, however it is spelled."""
    parsed = _LINE.fullmatch(line.decode("utf-8", "replace"))
    if parsed is None or parsed[3] != folder:
        return False
    try:
        return str(parse_rule(parsed[2], "allow", "")) == text
    except ConfigError:
        return parsed[2] == text
