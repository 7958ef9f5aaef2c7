"""Matches globs of rules for files, like those of .gitignore, against a path's real location."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path


def pattern_matches(pattern: str, path: Path | str, workspace: Path, home: Path) -> bool:
    """Return whether `pattern` matches the absolute `path` or a folder around it. A pattern without
    a slash matches at any depth below `workspace`; ~ is `home`."""
    return _compiled(pattern, workspace, home).fullmatch(str(path)) is not None


@functools.lru_cache(maxsize=256)
def _compiled(pattern: str, workspace: Path, home: Path) -> re.Pattern[str]:
    """Compile a pattern. The part before its first glob is resolved, like the paths it is compared
    with."""
    if pattern == "~" or pattern.startswith("~/"):
        pattern = f"{home}/{pattern[2:]}"
    elif not pattern.startswith("/"):
        pattern = pattern.removeprefix("./")
        depth = "" if "/" in pattern.rstrip("/") else "**/"
        pattern = f"{escaped(str(workspace))}/{depth}{pattern}"
    components = pattern.rstrip("/").removesuffix("/**").split("/")
    plain = 0
    while plain < len(components) and not re.search(r"[*?[]", components[plain]):
        plain += 1
    fixed = os.path.realpath("/".join(components[:plain]) or "/")
    globs = "/".join(components[plain:])
    start = re.escape(fixed).rstrip("/")
    return re.compile(start + (f"/{_translated(globs)}" if globs else "") + r"(?:/.*)?", re.DOTALL)


def escaped(path: str) -> str:
    """Return a pattern that matches only this path."""
    return re.sub(r"([*?[])", r"[\1]", path)


_PARTS = re.compile(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]]{0,100}\]|.", re.DOTALL)
_MEANINGS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def _translated(glob: str) -> str:
    out = []
    for part in _PARTS.findall(glob):
        if part in _MEANINGS:
            out.append(_MEANINGS[part])
        elif len(part) > 2 and part.startswith("["):
            inside = part[1:-1].replace("\\", "\\\\").replace("[", "\\[")
            out.append(f"[^/{inside[1:]}]" if inside.startswith("!") else f"[{inside}]")
        else:
            out.append(re.escape(part))
    return "".join(out)
