"""Paths that people name on the command line. Raises UsageError for one that leads nowhere."""

from __future__ import annotations

from pathlib import Path

from agentcli.errors import UsageError


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
