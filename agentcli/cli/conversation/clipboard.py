"""The desktop's clipboard, by means of the programs that the desktop has for it."""

from __future__ import annotations

import base64
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from agentcli.errors import UsageError
from agentcli.system.programs import find_program, user_environ
from agentcli.ui.prompt.control import Prompt

_READERS = (
    ("WAYLAND_DISPLAY", ["wl-paste", "--type", "image/png"]),
    ("DISPLAY", ["xclip", "-selection", "clipboard", "-target", "image/png", "-out"]),
    ("", ["pngpaste", "-"]),
)
_WRITERS = (
    ("WAYLAND_DISPLAY", ["wl-copy"]),
    ("DISPLAY", ["xclip", "-selection", "clipboard", "-in"]),
    ("DISPLAY", ["xsel", "--clipboard", "--input"]),
    ("", ["pbcopy"]),
    ("TMUX", ["tmux", "load-buffer", "-w", "-"]),
)
"""Programs that write to a clipboard, with the variable that each needs. tmux passes on what it is
given; by default it accepts no OSC 52 from the programs that run in it."""
_LONGEST_S = 3.0
_LONGEST_OSC = 100_000
"""Most base64 characters that terminals take by OSC 52; xterm and others drop longer text."""


def clipboard_image() -> Path | None:
    """Save the image in the clipboard to a new file; None if there is none or it can't be read."""
    for command in _there(_READERS):
        try:
            done = subprocess.run(command, capture_output=True, timeout=_LONGEST_S, check=False)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0 and done.stdout.startswith(b"\x89PNG"):
            fd, path = tempfile.mkstemp(prefix="agent-pasted-", suffix=".png")
            with open(fd, "wb") as file:
                file.write(done.stdout)
            return Path(path)
    return None


def copy_text(text: str, prompt: Prompt) -> str:
    """Copy `text` to the clipboard and return what did it. Where no program can, the terminal is
    asked (by OSC 52), which does not confirm. Raises UsageError when nothing works."""
    data = text.encode("utf-8", "replace")
    for command in _there(_WRITERS):
        try:
            # X and Wayland programs keep running to answer pastes, so they must not hold our output
            # open.
            done = subprocess.run(
                command,
                input=data,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_LONGEST_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return Path(command[0]).name
    encoded = base64.b64encode(data).decode()
    if len(encoded) > _LONGEST_OSC:
        raise UsageError(
            f"{len(data):,} bytes are too much for a terminal to copy",
            hint="/export FILE writes the whole conversation; or install wl-copy or xclip",
        )
    if not prompt.send_sequence(f"\x1b]52;c;{encoded}\x07"):
        raise UsageError(
            "no clipboard can be reached from here", hint="/export FILE; or install xclip"
        )
    return "the terminal"


def _there(commands: tuple[tuple[str, list[str]], ...]) -> Iterator[list[str]]:
    """Yield the commands whose variable is set and whose program is installed, with its path."""
    for variable, command in commands:
        if not variable or user_environ().get(variable):
            program = find_program(command[0])
            if program is not None:
                yield [program, *command[1:]]
