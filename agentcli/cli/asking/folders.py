"""Ask the user at the terminal which folders may be written to. In the home folder and above it,
only folders that the user names are writable."""

from __future__ import annotations

import shlex
import termios
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from agentcli.app.workspace_warnings import what_it_is
from agentcli.errors import ConfigError, os_error_text
from agentcli.system.homes import expanded
from agentcli.ui.questions import Questions
from agentcli.ui.unambiguous_text import reveal_hidden


def ask_folders(workspace: Path, home: Path) -> list[str]:
    """Return the folders that the user names, which may be none; an interrupt passes through."""
    question = (
        f"\n{reveal_hidden(what_it_is(workspace, home))}. Which folders in it may be changed?\n"
        "Name them, separated by spaces; press Enter to let nothing be changed.\n> "
    )
    with suppress(OSError, termios.error), Questions() as terminal:
        while (line := terminal.ask(question)) is not None:
            try:
                return [str(folder) for folder in named_folders(line, workspace)]
            except ValueError as error:
                question = f"  {reveal_hidden(str(error))}\n> "
    return []


def named_folders(line: str, workspace: Path) -> Iterator[Path]:
    """Yield the folders named in a line that is quoted as for a shell; relative ones are in
    `workspace`. Raises ValueError for a word that names no folder."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise ValueError("a quote is not closed; name them again") from error
    for word in words:
        try:
            folder = workspace / expanded(word.rstrip(","))
            is_there = folder.is_dir()
        except ConfigError as error:
            raise ValueError(error.message) from error
        except OSError as error:
            raise ValueError(os_error_text(error)) from error
        if not is_there:
            raise ValueError(f"there is no folder {folder}; name others, or none")
        yield folder
