"""Images from the clipboard of the desktop, by the program that it brings for that."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from agentcli.system.programs import find_program, person_environ

_PROGRAMS = (
    ("WAYLAND_DISPLAY", ["wl-paste", "--type", "image/png"]),
    ("DISPLAY", ["xclip", "-selection", "clipboard", "-target", "image/png", "-out"]),
    ("", ["pngpaste", "-"]),
)
_LONGEST_S = 3.0


def clipboard_image() -> Path | None:
    """The image in the clipboard, in a file of its own; None if there is none to be had."""
    for variable, command in _PROGRAMS:
        program = (
            find_program(command[0]) if not variable or person_environ().get(variable) else None
        )
        if program is None:
            continue
        try:
            done = subprocess.run(
                [program, *command[1:]], capture_output=True, timeout=_LONGEST_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0 and done.stdout.startswith(b"\x89PNG"):
            fd, path = tempfile.mkstemp(prefix="agent-pasted-", suffix=".png")
            with open(fd, "wb") as file:
                file.write(done.stdout)
            return Path(path)
    return None
