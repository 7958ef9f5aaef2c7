"""The desktop's clipboard, by means of the programs that the desktop has for it."""

from __future__ import annotations

import base64
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
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
    for _, output in _run(_READERS):
        if output.startswith(b"\x89PNG"):
            fd, path = tempfile.mkstemp(prefix="agent-pasted-", suffix=".png")
            with open(fd, "wb") as file:
                file.write(output)
            return Path(path)
    return None


def copy_text(text: str, prompt: Prompt) -> str:
    """Copy `text` to the clipboard and return what did it. Where no program can, the terminal is
    asked (by OSC 52), which does not confirm. Raises UsageError when nothing works."""
    data = text.encode("utf-8", "replace")
    # X and Wayland programs keep running to answer pastes, so they must not hold our output open.
    for program, _ in _run(_WRITERS, data, subprocess.DEVNULL):
        return program
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


def _run(
    commands: Sequence[tuple[str, list[str]]], data: bytes = b"", stdout: int = subprocess.PIPE
) -> Iterator[tuple[str, bytes]]:
    """Run the commands whose variable is set and whose program is installed, with `data` as their
    input. Yield the name and the output of each that succeeds."""
    for variable, (name, *arguments) in commands:
        program = find_program(name) if not variable or user_environ().get(variable) else None
        if program is None:
            continue
        with suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(
                [program, *arguments],
                input=data,
                stdout=stdout,
                stderr=subprocess.DEVNULL,
                timeout=_LONGEST_S,
                check=False,
            )
            if done.returncode == 0:
                yield name, done.stdout or b""
