"""The large folders that a snapshot leaves out because they can be made again."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from agentcli.checkpoints.scan import REPOSITORY, FileFacts
from agentcli.checkpoints.store_git import CheckpointError, Git, has_git
from agentcli.checkpoints.trees import with_parents
from agentcli.workspace.names import GENERATED

IGNORED_FILES = 5_000
IGNORED_BYTES = 200_000_000
"""Limits up to which an ignored folder is worth keeping: `.env`, settings, a small build."""
REGENERABLE = frozenset(map(os.fsencode, {*GENERATED, "target"}))
"""Folders that tools can fill again; used without git, which has its own ignore list."""
CAN_BE_MADE_AGAIN = "can be made again"
_REPOSITORY_STORES = frozenset({b"lfs", b"annex", b"modules"})
"""Folders of a `.git` that hold files as large as those of a workspace."""


def large_folders(
    files: Iterable[FileFacts], workspace: Path, git: Git
) -> dict[bytes, tuple[int, str]]:
    """Return the topmost folders to leave out: how many files they hold, and why."""
    sizes = {
        path: count
        for path, (count, size) in _sums(files).items()
        if count > IGNORED_FILES or size > IGNORED_BYTES
    }
    reasons = dict.fromkeys(_ignored(sizes, workspace, git), "ignored by git")
    without_git = not os.path.lexists(workspace / os.fsdecode(REPOSITORY))
    for path in sizes:
        name = path.rsplit(b"/", 1)[-1]
        if without_git and name in REGENERABLE:
            reasons.setdefault(path, CAN_BE_MADE_AGAIN)
        elif name in _REPOSITORY_STORES and path.endswith(b"/".join((REPOSITORY, name))):
            reasons.setdefault(path, "large files of the repository")
    return {
        path: (sizes[path], reason)
        for path, reason in reasons.items()
        if not any(above in reasons for above in with_parents(path) if above != path)
    }


def _sums(files: Iterable[FileFacts]) -> dict[bytes, tuple[int, int]]:
    """Return the number and bytes of the files in each folder, at any depth."""
    directly: dict[bytes, list[int]] = {}
    for facts in files:
        directly.setdefault(facts.path.rpartition(b"/")[0], []).append(facts.size)
    directly.pop(b"", None)
    counts: Counter[bytes] = Counter()
    sizes: Counter[bytes] = Counter()
    for folder, its in directly.items():
        for above in with_parents(folder):
            counts[above] += len(its)
            sizes[above] += sum(its)
    return {folder: (counts[folder], sizes[folder]) for folder in counts}


def _ignored(folders: Iterable[bytes], workspace: Path, git: Git) -> set[bytes]:
    # git refuses questions about paths within a repository folder.
    asked = [path for path in folders if REPOSITORY not in path.split(b"/")]
    if not asked or not has_git():
        return set()
    exclude = workspace / ".git" / "info" / "exclude"
    more = ["-c", f"core.excludesFile={exclude}"] if exclude.is_file() else []
    # Without `./`, git would read a leading colon as pathspec magic.
    data = b"".join(b"./" + path + b"\0" for path in asked)
    arguments = [*more, "check-ignore", "--no-index", "-z", "--stdin"]
    try:
        printed = git.run(*arguments, data=data, work_tree=workspace, ok=1)
    except CheckpointError:
        # They then count as not ignored, which costs time and space but loses nothing.
        return set()
    return {path.removeprefix(b"./") for path in printed.split(b"\0") if path}
