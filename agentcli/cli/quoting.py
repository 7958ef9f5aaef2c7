"""Words of a person in commands that they are told to type."""

from __future__ import annotations

import shlex


def quoted(text: str) -> str:
    """For a shell, in double quotes where nothing in it has a meaning there."""
    return shlex.quote(text) if set('"$`!\\').intersection(text) else f'"{text}"'
