"""Finds the Python of a workspace: never the virtual environment that agent itself is installed in,
unless that belongs to the workspace."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from agentcli.system.programs import find_on


def environment_folder(workspace: Path, environ: Mapping[str, str]) -> Path | None:
    """Return the workspace's virtual environment: the active one, .venv, venv, or None."""
    active = environ.get("VIRTUAL_ENV")
    if active and _is_of_agent(active) and not Path(active).resolve().is_relative_to(workspace):
        active = None
    for folder in (active, workspace / ".venv", workspace / "venv"):
        if folder and os.access(Path(folder) / "bin" / "python", os.X_OK):
            return Path(folder)
    return None


def python_on_path(environ: Mapping[str, str]) -> str | None:
    """Return the first Python on the PATH of `environ` that is not in agent's own environment."""
    folders = environ.get("PATH", os.defpath).split(os.pathsep)
    path = os.pathsep.join(each for each in folders if not _is_of_agent(Path(each).parent))
    return find_on("python3", path) or find_on("python", path)


def interpreter_of(workspace: Path, environ: Mapping[str, str]) -> str:
    """Return the Python interpreter for `workspace`; as a last resort, the one that agent's own
    environment was made from."""
    folder = environment_folder(workspace, environ)
    if folder is not None:
        return str(folder / "bin" / "python")
    made_of = Path(sys.base_prefix, "bin", "python3")
    fallback = str(made_of) if os.access(made_of, os.X_OK) else sys.executable
    return python_on_path(environ) or fallback


def _is_of_agent(folder: str | Path) -> bool:
    """Return whether this is the virtual environment that agent runs in."""
    if sys.prefix == sys.base_prefix:
        return False
    return os.path.realpath(folder) == os.path.realpath(sys.prefix)
