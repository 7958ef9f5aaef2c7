"""Folders and files: where the user is, and those named on the command line."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from agentcli.app.configuration.places import resolve_workspace
from agentcli.errors import SessionError, UsageError
from agentcli.files.private import replace_atomically
from agentcli.system.homes import state_home
from agentcli.system.programs import user_environ
from agentcli.ui.sanitize import printable


def home() -> Path:
    return state_home(user_environ())


def here() -> Path:
    return resolve_workspace(None)


def tilde_path(path: Path | str) -> str:
    """Return `path` with `~` for the user's home, safe to show."""
    home, text = user_environ().get("HOME", ""), str(path)
    if home and (text == home or text.startswith(f"{home}/")):
        text = f"~{text.removeprefix(home)}"
    return printable(text, multiline=False)


def named_file(path: Path, flag: str = "") -> Path:
    """Return `path` as an absolute path without `~`. Links are kept: it may be `/dev/stdout`."""
    try:
        return path.expanduser().absolute()
    except RuntimeError as error:
        raise UsageError(f"{flag} {path}: {error}".strip()) from error


def named_folder(path: Path, flag: str) -> Path:
    """Return `path` without `~`, `..` and links, so that it keeps naming the same folder later."""
    try:
        return named_file(path, flag).resolve()
    except (RuntimeError, OSError) as error:  # A loop of links raises one of these.
        raise UsageError(f"{flag} {path}: {error}") from error


def write_atomically(path: Path, pieces: Iterable[str]) -> None:
    """Replace the file `path` once everything is written. Raises SessionError."""
    encoded = (piece.encode("utf-8", "replace") for piece in pieces)
    try:
        if path.exists() and not path.is_file():
            # Replacing a device or a pipe would remove it for everybody.
            with path.open("wb") as file:
                file.writelines(encoded)
            return
        replace_atomically(Path(os.path.realpath(path)), *encoded, shared=True)
    except OSError as error:
        raise SessionError(f"{path} can't be written: {error.strerror}") from error
