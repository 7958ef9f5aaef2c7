"""How much of a call's result is shown, and how the user can see the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentcli.ui.style import Line, Span


@dataclass(frozen=True, slots=True)
class Folding:
    """The most lines shown of each part of a call; None means all of them.

    `hint` says how to see the rest, such as `Ctrl-O`; `{}` in it stands for the id of the call's
    event. If an event holds only both ends of an output, `kept_output` returns the whole by the
    name of its file, or None if that file is gone.
    """

    code: int | None = 8
    output: int | None = 3
    failed_output: int | None = 8
    found: int | None = 0
    read: int | None = 0
    edit: int | None = 200
    new_file: int | None = 12
    error: int | None = 6
    hint: str = ""
    kept_output: Callable[[str], str | None] = lambda name: None

    def more(self, hidden: int, event: int, noun: str = "line") -> Line:
        """Return the row that stands for `hidden` lines of the call with this event id."""
        counted = f"… +{hidden:,} {noun}{'' if hidden == 1 else 's'}"
        hint = self.hint.replace("{}", str(event))
        return [Span(f"{counted}, {hint}" if hint else counted, "dim")]

    def first(self, lines: Sequence[Line], limit: int | None, event: int) -> list[Line]:
        """Return the first lines and how many more there are; a single line is never hidden."""
        hidden = 0 if limit is None else len(lines) - limit
        if hidden <= 1:
            return list(lines)
        return [*lines[:limit], self.more(hidden, event)]


FOLDED = Folding()
DETAILED = Folding(
    code=None, output=200, failed_output=200, found=200, edit=None, new_file=200, error=200
)
UNFOLDED = Folding(None, None, None, None, None, None, None, None)
