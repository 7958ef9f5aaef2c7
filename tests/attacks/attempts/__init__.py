"""Runs where the agent runs commands and tries to get out; a copy of it lies in the workspace.

Only the standard library, no module of ours. Writes, as JSON, what each attempt gained: what it
says of its success, or null when it was refused. What really happened is judged from outside.
"""

# ruff: noqa: PTH104

from __future__ import annotations

import json
import os
import subprocess

from . import escapes, files, keys, modes, network, own, repository, shared  # noqa: F401
from ._parts import ATTEMPTS


def main(arguments: list[str]) -> None:
    place = json.loads(arguments[0])
    names = arguments[2:] or list(ATTEMPTS)
    # The more an attempt wrecks when it succeeds, the later it comes.
    late = [
        *("git_hooks_replaced", "git_folders_replaced", "git_moved_away", "move_own_folders"),
        "read_ssh_key_moved",
    ]
    names.sort(key=lambda name: late.index(name) if name in late else -1)
    found: dict[str, str | None] = {}
    for name in names:
        try:
            found[name] = f"{ATTEMPTS[name](place)}"
        except (OSError, ValueError, KeyError, IndexError, subprocess.SubprocessError):
            found[name] = None
    with open(f"{arguments[1]}-", "w") as file:
        json.dump(found, file)
    os.rename(f"{arguments[1]}-", arguments[1])
