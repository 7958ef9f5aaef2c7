"""Programs of the user's that a conversation runs: the clipboard's, an editor, and `!command`.

`!command` runs in the user's own shell, with all their rights, and its output goes into the
conversation. `!!command` runs the same way but stays out of it.
"""

from __future__ import annotations

import base64
import secrets
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.errors import UsageError
from agentcli.shell.at_terminal import run_at_terminal
from agentcli.system.programs import find_program, user_environ
from agentcli.ui.prompt.control import Prompt
from agentcli.ui.screen import terminal_size

if TYPE_CHECKING:
    from agentcli.cli.conversation.conversation import Conversation

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


_USUAL = ("editor", "nano", "vi")
_HINT = "export EDITOR=nano, or whatever you like"


def edit(path: Path, prompt: Prompt, done: Callable[[int], None]) -> None:
    """Open it in $VISUAL, else $EDITOR, else a usual editor. Returns at once, on whatever thread it
    is called. `done` gets the editor's exit code. Raises UsageError when there is no editor."""
    command, environ = [*_editor(), str(path)], dict(user_environ())
    prompt.give_way_to(lambda: done(subprocess.run(command, env=environ, check=False).returncode))


def _editor() -> list[str]:
    environ = user_environ()
    named = environ.get("VISUAL") or environ.get("EDITOR")
    try:
        words = shlex.split(named) if named else []
    except ValueError as error:
        raise UsageError(f"$EDITOR can't be read: {error}", hint=_HINT) from error
    for name in words[:1] or _USUAL:
        program = find_program(name)
        if program is not None:
            return [program, *words[1:]]
    raise UsageError(f"there is no editor {words[0]}" if words else "no editor found", hint=_HINT)


_MOST_CHARS = 30_000


def run_shell(conversation: Conversation, line: str) -> None:
    """Run what follows `!` or `!!`. Raises UsageError when there is nothing to run."""
    private = line.startswith("!!")
    command = line.removeprefix("!!" if private else "!").strip()
    if not command:
        raise UsageError("which command?", hint="!git status")
    environ = user_environ()
    shell = [environ.get("SHELL") or "/bin/sh", "-c", command]
    folder = str(conversation.builder.workspace)
    with conversation.prompt.suspended():
        ran = run_at_terminal(shell, environ, folder, lambda: terminal_size(sys.stderr))
    if ran.unread.strip():
        # As in a shell, input typed too early is kept until the command has ended.
        conversation.prompt.put(ran.unread.strip("\n"))
    if private:
        return
    opened, said = conversation.open_session(), ran.output.strip("\n")
    if len(said) > _MOST_CHARS:
        kept = opened.session.outputs / f"typed-{secrets.token_hex(4)}.txt"
        kept.write_text(said, encoding="utf-8")
        half = _MOST_CHARS // 2
        said = f"{said[:half]}\n[… all of it is in {kept} …]\n{said[-half:]}"
    told = f"I ran this command myself:\n$ {command}\n[exit code {ran.code}]\n{said}"
    opened.say(told.rstrip())
