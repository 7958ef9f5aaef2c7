"""Settings, rules, trust and sessions of the agent."""

# ruff: noqa: PTH104, PTH208

from __future__ import annotations

import os
from typing import Any

from ._parts import append, attempt, content, first_success, require


@attempt
def read_own_files(place: dict[str, Any]) -> object:
    return first_success(content, place["private"])


@attempt
def list_own_sessions(place: dict[str, Any]) -> object:
    names = [name for name in os.listdir(f"{place['home']}/state/sessions") if "earlier" in name]
    require(names)
    return names


@attempt
def write_own_files(place: dict[str, Any]) -> object:
    return first_success(append, place["private"])


@attempt
def replace_own_files(place: dict[str, Any]) -> object:
    def replace(path: str) -> str:
        append(f"{place['workspace']}/planted")
        os.rename(f"{place['workspace']}/planted", path)
        return path

    return first_success(replace, place["private"])


@attempt
def move_own_folders(place: dict[str, Any]) -> object:
    def swap(path: str) -> str:
        os.rename(path, f"{path}-gone")
        return path

    folders = (f"{place['home']}/state", f"{place['home']}/.config/agent")
    return first_success(swap, folders)


@attempt
def plant_new_own_files(place: dict[str, Any]) -> object:
    names = (".config/agent/planted", "state/planted", "state/sessions/planted", "state/trust.json")
    return first_success(append, [f"{place['home']}/{name}" for name in names])
