"""Files that people name, written completely or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from agentcli.errors import SessionError


def write_atomically(path: Path, pieces: Iterable[str]) -> None:
    """Replace the file `path` once everything is written. Raises SessionError."""
    encoded = (piece.encode("utf-8", "replace") for piece in pieces)
    try:
        if path.exists() and not path.is_file():
            # Replacing a device or a pipe would remove it for everybody.
            with path.open("wb") as file:
                file.writelines(encoded)
            return
        place = Path(os.path.realpath(path))
        temporary = place.with_name(f".{place.name}.{secrets.token_hex(4)}.tmp")
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            with open(fd, "wb") as file:
                file.writelines(encoded)
            temporary.replace(place)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise SessionError(f"{path} can't be written: {error.strerror}") from error
