"""Files that people name, written completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from agentcli.errors import SessionError
from agentcli.files.private import replace_atomically


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
