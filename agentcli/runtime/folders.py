"""Files and folders that are for our user alone."""

from __future__ import annotations

import os
from pathlib import Path


def private_folder(parent: Path, name: str) -> Path:
    """Raises FileExistsError if it is there already."""
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = parent / name
    folder.mkdir(mode=0o700)
    return folder


def write_private(path: Path, data: bytes) -> Path:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
    return path


def reserve(path: Path) -> Path:
    """Creates `path` empty. Raises FileExistsError if something is there."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    return path


def existing_folder(folder: str) -> str:
    """`folder` or, if it is gone, the nearest one above it."""
    path = Path(folder)
    return str(next((p for p in (path, *path.parents) if p.is_dir()), "/"))
