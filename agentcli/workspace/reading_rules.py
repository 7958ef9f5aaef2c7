"""What is kept from being read, whatever reads it: by the user's rules, and for its looks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agentcli.workspace.access_scope import AccessScope
from agentcli.workspace.secret_looks import looks_secret


@dataclass(frozen=True)
class ReadingRule:
    """A rule of the user about files for `tool` ("": whatever reads). `matches` takes a resolved
    path; `told` names the rule."""

    decision: Literal["allow", "ask", "deny"]
    tool: str
    matches: Callable[[str], bool]
    told: str


@dataclass(frozen=True)
class ReadingRules:
    """The user's rules about files."""

    rules: Sequence[ReadingRule] = ()
    asks: bool = True
    """Whether anything is asked about; nothing is in `yolo` mode."""
    scope: AccessScope | None = None
    """What was given to the session; a file elsewhere that looks like a secret is asked about."""

    def objection(self, path: str, tool: str = "", *, unasked: bool = False) -> str:
        """Return what keeps `tool` from the file at the resolved `path`; "" if nothing does. With
        `unasked`, what must be asked about is kept from it like what a rule denies."""
        if told := self._told("deny", path, tool):
            return f"{told} denies it"
        if not unasked or not self.asks:
            return ""
        if told := self._told("ask", path, tool):
            return f"{told} asks for it"
        if self.scope is None or self.scope.is_given(Path(path)) or self._told("allow", path, tool):
            return ""
        return looks_secret(path, self.scope.home)

    def may_object_below(self, top: Path) -> bool:
        """Return whether any file below the resolved folder `top` may be kept from being read."""
        if any(rule.decision != "allow" for rule in self.rules):
            return True
        return self.asks and self.scope is not None and not self.scope.is_given(top)

    def _told(self, decision: str, path: str, tool: str) -> str:
        """Return the first rule with this decision about the file, in words; "" if none is."""
        about = (r for r in self.rules if r.decision == decision and r.tool in ("", tool))
        return next((rule.told for rule in about if rule.matches(path)), "")
