"""Open a file in the user's own editor, while the prompt gives way."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

from agentcli.errors import UsageError
from agentcli.system.programs import find_program, user_environ
from agentcli.ui.prompt.control import Prompt

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
