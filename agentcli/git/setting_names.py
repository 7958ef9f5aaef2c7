"""Which of git's settings can do what, by name: the lists of `setting_names.txt`."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_LISTS = Path(__file__).with_name("setting_names.txt")


def is_among(listed: str, name: str) -> bool:
    """Return whether the list `listed` contains the setting `name`."""
    return _pattern(listed).fullmatch(name) is not None


@cache
def _pattern(listed: str) -> re.Pattern[str]:
    """Return a list's pattern, compiled on first use, because many sessions never need it."""
    _, _, text = _LISTS.read_text("utf-8").partition(f"\n[{listed}]\n")
    return re.compile(text.partition("\n[")[0], re.DOTALL | re.VERBOSE)
