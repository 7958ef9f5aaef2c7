"""TOML that others have written, read within bounds."""

from __future__ import annotations

import re
import tomllib
from typing import Any

_LONG_KEY = re.compile(
    r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){50}""", re.ASCII
)
"""tomllib takes time and memory by the square of a key's parts: 7 GB for one of 30,000."""


class LongKeyError(ValueError):
    """It may be valid, and would take too much to find out."""

    def __init__(self) -> None:
        super().__init__("a key has more than 50 parts")


def load_toml(text: str) -> dict[str, Any]:
    """Raises ValueError, of which LongKeyError is one, and RecursionError."""
    if _LONG_KEY.search(text):
        raise LongKeyError
    return tomllib.loads(text)
