"""Places that people name on the command line. UsageError where one leads nowhere."""

from __future__ import annotations

from pathlib import Path

from agentcli.errors import UsageError


def named_file(path: Path, flag: str = "") -> Path:
    """`path` from the root, without `~`. Links stay: it may be `/dev/stdout`."""
    try:
        return path.expanduser().absolute()
    except RuntimeError as error:
        raise UsageError(f"{flag} {path}: {error}".strip()) from error


def named_folder(path: Path, flag: str) -> Path:
    """`path` without `~`, `..` and links: as what is done in it finds it by its name later."""
    try:
        return named_file(path, flag).resolve()
    except (RuntimeError, OSError) as error:  # A loop of links is either.
        raise UsageError(f"{flag} {path}: {error}") from error
