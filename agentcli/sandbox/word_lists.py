"""The lists of places and variables that lie beside this module."""

from __future__ import annotations

from pathlib import Path


def read_words(name: str) -> list[str]:
    """The words of `name`.txt; a blank in one is written \\040, `#` begins a comment."""
    text = Path(__file__).with_name(f"{name}.txt").read_text(encoding="utf-8")
    words = (word for line in text.splitlines() for word in line.partition("#")[0].split())
    return [word.replace("\\040", " ") for word in words]
