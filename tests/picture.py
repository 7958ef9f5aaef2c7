"""The pictures of the README, a real conversation in a terminal: `python -m tests.picture` takes
them. Times, costs and the lengths of tracebacks are the same in each picture."""

from __future__ import annotations

import html
import re
import shutil
import tempfile
from io import StringIO
from itertools import groupby
from pathlib import Path

from pyte.screens import Char
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, DIMMED_MONOKAI, TerminalTheme
from rich.text import Text

from tests.conftest import MODELS, Agent
from tests.emulated import Emulated
from tests.server import Call, ModelServer, Reply

ROOT = Path(__file__).parents[1]
COLUMNS, ROWS = 96, 50
THEMES: dict[str, TerminalTheme] = {"light": DEFAULT_TERMINAL_THEME, "dark": DIMMED_MONOKAI}
_NAMES = {"brown": "yellow", "brightbrown": "bright_yellow"}
"""What pyte calls two of the colours."""
_FONTS = re.compile(r"@font-face \{.*?\n {4}\}\n", re.DOTALL)
"""Fetched from elsewhere by whoever looks at the picture, which a page need not allow."""
_VARYING = (
    (re.compile(r"\b\d+\.\d s\b"), "0.1 s"),
    (re.compile(r"\bin \d+\.\d{3}s"), "in 0.001s"),
    (re.compile(r"\d+% cached"), "82% cached"),
    (re.compile(r"\$0\.\d\d"), "$0.02"),
    (re.compile(r"\+\d+ lines"), "+19 lines"),
)
_TEXTS = re.compile(r"<text [^>]*>([^<]*)</text>")
_FIX = {
    "path": "tally.py",
    "old_str": 'r"[a-z]+"',
    "new_str": 'r"[a-z]+(?:\'[a-z]+)*"',
}
SCRIPT = [
    Reply("I'll run the tests first.", [Call("bash", {"command": "python3 -m unittest -q"})]),
    Reply(
        "The pattern splits words at an apostrophe. I'll let one stand inside a word.",
        [Call("edit", _FIX), Call("bash", {"command": "python3 -m unittest -q"})],
    ),
    Reply("Fixed: an apostrophe inside a word now belongs to it. All 3 tests pass."),
]


def screen(folder: Path) -> Text:
    """Return the last screen of the conversation, held in `folder`."""
    home, workspace = folder / "home", folder / "home" / "tally"
    shutil.copytree(ROOT / "agentcli" / "demo" / "repository", workspace)
    with ModelServer(SCRIPT) as server:
        agent = Agent(home, workspace).use(server, MODELS["responses"])
        terminal = Emulated(
            [*agent.command, "fix the failing test"],
            workspace,
            {**agent.environment, "TERM": "xterm-256color", "FORCE_HYPERLINK": "0"},
            columns=COLUMNS,
            rows=ROWS,
        )
        try:
            terminal.until("All 3 tests pass.")
            terminal.until(lambda rows: any("Shift-Tab" in row for row in rows))
            return _text(terminal)
        finally:
            terminal.close()


def _text(terminal: Emulated) -> Text:
    """Return the screen from the task on; what stands above it differs from machine to machine."""
    first = next(y for y, row in enumerate(terminal.rows) if row.startswith("> "))
    last = max(y for y, row in enumerate(terminal.rows) if row)
    buffer = terminal.screen.buffer
    lines = []
    for y in range(first, last + 1):
        line = Text()
        for style, chars in groupby((buffer[y][x] for x in range(COLUMNS)), _style):
            line.append(_unvarying("".join(char.data for char in chars)), style)
        line.rstrip()
        lines.append(line)
    return Text("\n").join(lines)


def _unvarying(text: str) -> str:
    for varying, fixed in _VARYING:
        text = varying.sub(fixed, text)
    return text


def _style(char: Char) -> Style:
    return Style(
        color=_colour(char.fg),
        bgcolor=_colour(char.bg),
        bold=char.bold,
        italic=char.italics,
        underline=char.underscore,
        reverse=char.reverse,
    )


def _colour(name: str) -> str | None:
    if name == "default":
        return None
    if re.fullmatch(r"[0-9a-f]{6}", name):
        return f"#{name}"
    name = _NAMES.get(name, name)
    return re.sub("^bright_?", "bright_", name)


def svg(text: Text, theme: str) -> str:
    console = Console(
        record=True, width=COLUMNS, file=StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(text, crop=False, no_wrap=True)
    made = console.export_svg(title="agent", theme=THEMES[theme], unique_id=f"session-{theme}")
    return _FONTS.sub("", made)


def words(picture: str) -> str:
    """Return the text in a picture, whichever release of the library has drawn it."""
    return " ".join(html.unescape(" ".join(_TEXTS.findall(picture))).split())


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        text = screen(Path(folder).resolve())
    for theme in THEMES:
        (ROOT / "docs" / f"session-{theme}.svg").write_text(svg(text, theme))
    print(text.plain)


if __name__ == "__main__":
    main()
