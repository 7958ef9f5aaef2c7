"""All commands with their options and values, cached in a file: collecting them loads every
command, which takes a second."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from agentcli.system.homes import state_home
from agentcli.system.programs import user_environ
from agentcli.workspace.private import read_private, replace_atomically

_PACKAGE = Path(__file__).parents[2]
_MAX_BYTES = 10_000_000


def kept_tree() -> dict[str, Any]:
    """Return the tree from the file, or make it anew if a command changed or a package was
    installed since."""
    path = state_home(user_environ()) / "completion.json"
    stamp = _stamp()
    kept = read_private(path, _MAX_BYTES)
    with suppress(ValueError, TypeError, KeyError):
        if kept is not None and (tree := json.loads(kept))["stamp"] == stamp:
            return dict(tree)
    from agentcli.cli.completion.make_tree import make_tree

    tree = {"stamp": stamp, **make_tree()}
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_atomically(path, json.dumps(tree).encode())
    return tree


def _stamp() -> str:
    """Return a stamp that changes with every command file and with every installed package."""
    cli = _PACKAGE / "cli"
    folders = [_PACKAGE, cli, *sorted((cli / "commands").rglob("*/"))]
    files = [*(cli / "commands").rglob("*.py"), _PACKAGE / "settings.py", cli / "flags.py"]
    files += [cli / "options.py", cli / "completion" / "make_tree.py"]
    places = [*folders, *files, *map(Path, sys.path)]
    newest = 0
    for place in places:
        with suppress(OSError):
            newest = max(newest, place.stat().st_mtime_ns)
    return f"{_PACKAGE}:{len(files)}:{newest}"
