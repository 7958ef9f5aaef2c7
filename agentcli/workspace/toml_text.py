"""Parses TOML that others have written, within limits."""

from __future__ import annotations

import re
import tomllib
from typing import Any

_LONG_KEY = re.compile(
    r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){50}""", re.ASCII
)
"""tomllib's time and memory grow with the square of a key's parts: 7 GB for a key of 30,000."""


class LongKeyError(ValueError):
    """The text may be valid TOML, but finding out would cost too much."""

    def __init__(self) -> None:
        super().__init__("a key has more than 50 parts")


def toml_text(data: bytes) -> str:
    """Return the text of a TOML file, without the byte order mark that Windows' editors put first.
    Raises ValueError if it is not UTF-8."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in data[:2]:
        raise ValueError("it is UTF-16; save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 (at byte {error.start + 1})") from error


def load_toml(text: str) -> dict[str, Any]:
    """Parse TOML. Raises ValueError, RecursionError; LongKeyError is a ValueError."""
    if _LONG_KEY.search(text):
        raise LongKeyError
    return tomllib.loads(text)
