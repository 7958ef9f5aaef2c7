"""Where the next bash or Python of a session starts."""

from __future__ import annotations

from pathlib import Path

from agentcli.sandbox.choosing import Sandbox


def existing_folder(folder: str, sandbox: Sandbox | None = None) -> str:
    """`folder`, as commands in the sandbox see it, or the nearest one above it if it is gone."""
    path = Path(folder)
    for place in (path, *path.parents):
        real = place if sandbox is None else sandbox.real_path(str(place))
        if real.is_dir():
            return str(place)
    return "/"
