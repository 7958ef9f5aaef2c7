"""Which files that git executes or trusts may be restored.

A snapshot taken between two commands may hold files that the first one planted in a repository and
that are removed only at the end of the turn. Restoring them would undo that protection. So such a
file is restored only if it is harmless, or was there while no command ran.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from agentcli.checkpoints.object_store import ObjectStore
from agentcli.checkpoints.paths import repository_of
from agentcli.checkpoints.trees import Entry
from agentcli.git.config import is_harmless, parse
from agentcli.git.disarm import RESOLUTIONS, resolved_paths
from agentcli.git.index import is_harmless_index, is_refused
from agentcli.workspace.git_layout import is_routine_git_file

_INERT = re.compile(r"description|info/exclude|hooks/[^/]+\.sample", re.DOTALL)
_SETTINGS = ("config", "config.worktree")
_TODO = "rebase-merge/git-rebase-todo"
_INDEX = re.compile(r"index|sharedindex\..*", re.DOTALL)
_RUNS = re.compile(rb"^[ \t]*(?:x|exec)[ \t]", re.MULTILINE)
_STRATEGIES = ("rebase-merge/strategy", "sequencer/opts")
"""Files that belong to daily work although they name programs."""


def has_power(
    objects: ObjectStore, path: bytes, entry: Entry, id_bytes: Callable[[], int | None]
) -> bool:
    """Return whether this file could make git run or trust something. `id_bytes` tells how long
    object ids are in its repository; None if that is not known."""
    repository = repository_of(path)
    if repository is None or entry.is_folder:
        return False
    name = os.fsdecode(path[len(repository) + 1 :])
    # A `.git` that is not a folder points to another repository, and so may a link within one.
    if not name or entry.is_link:
        return True
    if not is_routine_git_file(name.split("/")):
        return _INERT.fullmatch(name) is None and not _is_harmless(objects, name, entry)
    if _INDEX.fullmatch(name.rpartition("/")[2]):
        length = id_bytes()
        return length is None or not is_harmless_index(objects.read(entry.oid), length)
    if name.rpartition("/")[2] == RESOLUTIONS:
        return any(map(is_refused, resolved_paths(objects.read(entry.oid))))
    if name.endswith(_TODO):
        return _RUNS.search(objects.read(entry.oid)) is not None
    return name.endswith(_STRATEGIES)


def _is_harmless(objects: ObjectStore, name: str, entry: Entry) -> bool:
    if name.rpartition("/")[2] not in _SETTINGS:
        return False
    settings = parse(objects.read(entry.oid))
    return settings is not None and all(map(is_harmless, settings))
