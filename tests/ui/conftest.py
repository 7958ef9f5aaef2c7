"""A terminal to look at: it understands as much as is written to it, and refuses the rest."""

import io
import re

import pytest

_TOKEN = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])|([\r\n\t])|([^\x00-\x1f\x7f-\x9f])")


class FakeTerminal(io.StringIO):
    def __init__(self, columns=80, lines=24):
        super().__init__()
        self.columns = columns
        self.lines = lines
        self.rows = [""]
        self.row = self.column = 0
        self.writes = 0

    def isatty(self):
        return True

    def write(self, text):
        self.writes += 1
        at = 0
        while at < len(text):
            token = _TOKEN.match(text, at)
            assert token, f"the terminal was sent {text[at : at + 10]!r}"
            at = token.end()
            self._take(token)
        return super().write(text)

    def _take(self, token):
        number, command, control, char = token.groups()
        match command or control or char:
            case "m" if command:
                return
            case "A" if command:
                self.row -= int(number or 1)
                assert self.row >= self.top, "it went up into the scrollback"
            case "C" if command:
                self.column += int(number or 1)
            case "J" if command:
                self._cut()
                del self.rows[self.row + 1 :]
            case "K" if command:
                self._cut()
            case "\r":
                self.column = 0
            case "\n":
                self._down()
            case other:
                assert not command
                if self.column == self.columns:
                    self._down()
                line = self.rows[self.row].ljust(self.column)
                self.rows[self.row] = line[: self.column] + other + line[self.column + 1 :]
                self.column += 1

    def _cut(self):
        self.rows[self.row] = self.rows[self.row][: self.column]

    def _down(self):
        self.row += 1
        self.column = 0
        if self.row == len(self.rows):
            self.rows.append("")

    @property
    def top(self):
        """The first row that a terminal of this height can still change."""
        return max(0, len(self.rows) - self.lines)

    @property
    def text(self):
        """Everything, scrollback included, as a person sees it."""
        return "\n".join(row.rstrip() for row in self.rows).rstrip("\n")


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def fake_terminal():
    """Makes terminals: `fake_terminal(columns=120)`."""
    return FakeTerminal


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return FakeTerminal()
