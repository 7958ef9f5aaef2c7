"""What git runs, and where it looks for that."""

# ruff: noqa: PTH104

from __future__ import annotations

import os
import subprocess
from typing import Any

from ._parts import append, attempt, first_success


@attempt
def git_hook(place: dict[str, Any]) -> object:
    return append(f"{place['workspace']}/.git/hooks/pre-commit")


@attempt
def git_config(place: dict[str, Any]) -> object:
    return append(f"{place['workspace']}/.git/config", "[core]\n\tfsmonitor = ./payload\n")


@attempt
def git_config_by_git(place: dict[str, Any]) -> object:
    command = ["git", "config", "core.hooksPath", "/payload"]
    return subprocess.run(command, cwd=place["workspace"], check=True, capture_output=True).args


@attempt
def git_config_replaced(place: dict[str, Any]) -> None:
    append(f"{place['workspace']}/new-config")
    os.rename(f"{place['workspace']}/new-config", f"{place['workspace']}/.git/config")


@attempt
def git_hooks_replaced(place: dict[str, Any]) -> None:
    os.rename(f"{place['workspace']}/.git/hooks", f"{place['workspace']}/.git/old-hooks")


@attempt
def git_moved_away(place: dict[str, Any]) -> None:
    os.rename(f"{place['workspace']}/.git", f"{place['workspace']}/.git-old")


@attempt
def git_common_folder(place: dict[str, Any]) -> object:
    """Settings for the worktree's own git folder: git reads them from where this file says."""
    return append(f"{place['workspace']}/.git/worktrees/side/commondir", "/elsewhere")


@attempt
def git_submodule_hook(place: dict[str, Any]) -> object:
    return append(f"{place['workspace']}/.git/modules/part/hooks/post-checkout")


@attempt
def git_submodule_config(place: dict[str, Any]) -> object:
    return append(f"{place['workspace']}/.git/modules/part/config")


@attempt
def git_folders_replaced(place: dict[str, Any]) -> object:
    """What is protected lies deeper, so that it would go along."""

    def swap(path: str) -> str:
        os.rename(path, f"{path}-gone")
        return path

    folders = ("modules/part", "modules", "worktrees/side", "worktrees")
    return first_success(swap, [f"{place['workspace']}/.git/{name}" for name in folders])
