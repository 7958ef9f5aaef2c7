"""Quoting of a user's words in commands that they are advised to type."""

from __future__ import annotations

import shlex


def quoted(text: str) -> str:
    """Quote `text` for a shell, in double quotes if nothing in it has a meaning there."""
    return shlex.quote(text) if set('"$`!\\').intersection(text) else f'"{text}"'
