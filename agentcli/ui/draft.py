"""Text that the user types in answer to a question."""

from __future__ import annotations

from agentcli.ui.style import Line, Span
from agentcli.ui.summary import count
from agentcli.ui.unambiguous_text import reveal_hidden, rows, texts

_MOST_ROWS = 5


class Draft:
    """Text with a cursor, while it is being typed."""

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.at = len(text)

    def insert(self, text: str) -> None:
        self.text = self.text[: self.at] + text + self.text[self.at :]
        self.at += len(text)

    def press(self, key: str) -> None:
        """Handle a key that types, moves or deletes."""
        before, after = self.text[: self.at], self.text[self.at :]
        match key:
            case "left" | "c-b":
                self.at = max(self.at - 1, 0)
            case "right" | "c-f":
                self.at = min(self.at + 1, len(self.text))
            case "home" | "c-a":
                self.at = 0
            case "end" | "c-e":
                self.at = len(self.text)
            case "c-h":
                self._keep(before[:-1], after)
            case "delete":
                self._keep(before, after[1:])
            case "c-w":
                self._keep(before.rstrip(" ")[: before.rstrip(" ").rfind(" ") + 1], after)
            case "c-u":
                self._keep("", after)
            case "c-k":
                self._keep(before, "")
            case _ if len(key) == 1 and (key.isprintable() or key == "\t"):
                self.insert(key)

    def lines(self, width: int) -> list[Line]:
        """Return the typed text, or its end if it is long, with the cursor in the last line."""
        before = texts(self.text[: self.at])
        lines = list(rows(before[-_MOST_ROWS:], width - 1))
        if len(before) > _MOST_ROWS or len(lines) > _MOST_ROWS:
            told = f"  … the end of {count(len(before), 'line')}"
            lines = [[Span(told, "dim")], *lines[-_MOST_ROWS:]]
        rest = reveal_hidden(self.text[self.at :].replace("\n", " "))
        lines[-1] = [*lines[-1], Span(rest[:1] or " ", "reverse"), Span(rest[1:])]
        return lines

    def _keep(self, before: str, after: str) -> None:
        self.text, self.at = before + after, len(before)
