"""Reads the lists of places and variables beside this module."""

from __future__ import annotations

from pathlib import Path


def read_words(name: str) -> list[str]:
    """Return the words of `name`.txt. `\\040` in a word means a space; `#` begins a comment."""
    text = Path(__file__).with_name(f"{name}.txt").read_text(encoding="utf-8")
    words = (word for line in text.splitlines() for word in line.partition("#")[0].split())
    return [word.replace("\\040", " ") for word in words]
