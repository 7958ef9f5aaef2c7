"""Reads, without git, the files by which a repository tells git what to do, and reports what has
changed in them since the session began."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from agentcli.git.config_files import parse
from agentcli.git.repositories import folders_of, git_folders_in, top_of
from agentcli.workspace.git_layout import MODULES
from agentcli.workspace.private import read_private

_MOST_BYTES = 1_000_000
_MOST_FILES = 200


def snapshot_repository_config(workspace: Path, store: Path) -> None:
    """Store the repository's current state in the file `store`, unless that exists already."""
    found = {name: [_digest(line) for line in lines] for name, lines in _contents(workspace)}
    with suppress(OSError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with open(os.open(store, flags, 0o600), "w") as file:
            json.dump(found, file)


def changes_since_start(workspace: Path, store: Path) -> str:
    """Return what has changed since `snapshot_repository_config`, in words for people; "" if
    nothing has."""
    try:
        before = json.loads(store.read_text())
    except (OSError, ValueError):
        return "it is not known what the repository was like when the session began"
    for name, lines in _contents(workspace):
        known = before.pop(name, [])
        if [_digest(line) for line in lines] != known:
            new = [line for line in lines if _digest(line) not in known]
            what = _setting_of(lines, new[0]) if new else "something was moved or removed"
            return f"since the session began, {name} of the repository changed: {what}"
    return f"since the session began, {min(before)} was removed" if before else ""


def hooks_in(folder: Path) -> list[str]:
    """Return the names of the hooks that may run."""
    try:
        names = sorted(os.listdir(folder))[:_MOST_FILES]  # noqa: PTH208 - names alone
    except OSError:
        return []
    return [name for name in names if not name.endswith(".sample")]


def _contents(workspace: Path) -> Iterator[tuple[str, list[bytes]]]:
    """Yield the lines of each file, under its name for people."""
    top = top_of(workspace)
    if top is None:
        return
    git_dir, common = folders_of(top)
    yield ".git", [os.fsencode(git_dir), os.fsencode(common)]
    for name in ("commondir", "config.worktree"):
        yield name, _lines(git_dir / name)
    yield "config", _lines(common / "config")
    real = common.resolve()
    for inner in islice(git_folders_in(real), _MOST_FILES):
        if inner.is_relative_to(real / MODULES):
            yield f"{inner.relative_to(real)}/config", _lines(inner / "config")
    settings = parse(_whole(common / "config")) or ()
    chosen = [value for name, value in settings if name == "core.hookspath" and value]
    folder = top / Path(chosen[-1]).expanduser() if chosen else common / "hooks"
    for name in hooks_in(folder):
        yield f"the hook {name}", [_whole(folder / name)]


def _whole(path: Path) -> bytes:
    return read_private(path, _MOST_BYTES, follow=True) or b""


def _lines(path: Path) -> list[bytes]:
    return [line.strip() for line in _whole(path).splitlines() if line.strip()]


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()[:32]


def _setting_of(lines: Sequence[bytes], wanted: bytes) -> str:
    """Return the name of the setting that a line sets, without its value, which may be secret."""
    section = ""
    for line in lines:
        if line.startswith(b"["):
            section = line.partition(b"]")[0].lstrip(b"[").decode("utf-8", "replace").strip()
        if line == wanted:
            break
    key = "" if wanted.startswith(b"[") else wanted.partition(b"=")[0].decode("utf-8", "replace")
    return " ".join(f"{section} {key}".split())[:100] or "its content"
