"""Keys in files, environments and memory."""

# ruff: noqa: PTH104, PTH208, PTH211, PTH207

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from typing import Any

from ._parts import attempt, content, first_success, require


@attempt
def read_ssh_key(place: dict[str, Any]) -> object:
    return content(f"{place['home']}/.ssh/id_ed25519")


@attempt
def read_ssh_key_by_link(place: dict[str, Any]) -> object:
    os.symlink(f"{place['home']}/.ssh", f"{place['workspace']}/keys")
    return content(f"{place['workspace']}/keys/id_ed25519")


@attempt
def read_ssh_key_by_hard_link(place: dict[str, Any]) -> object:
    os.link(f"{place['home']}/.ssh/id_ed25519", f"{place['workspace']}/key")
    return content(f"{place['workspace']}/key")


@attempt
def read_ssh_key_moved(place: dict[str, Any]) -> object:
    os.rename(f"{place['home']}/.ssh", f"{place['workspace']}/ssh")
    return content(f"{place['workspace']}/ssh/id_ed25519")


@attempt
def read_ssh_key_by_root_of_others(place: dict[str, Any]) -> object:
    pids = [name for name in os.listdir("/proc") if name.isdigit()]
    path = f"{place['home']}/.ssh/id_ed25519"
    return first_success(content, [f"/proc/{pid}/root{path}" for pid in pids])


@attempt
def read_cloud_credentials(place: dict[str, Any]) -> object:
    return content(f"{place['home']}/.aws/credentials")


@attempt
def read_own_environment(place: dict[str, Any]) -> object:
    return _with_key(place, [repr(dict(os.environ))])


@attempt
def read_other_environments(place: dict[str, Any]) -> object:
    return _with_key(place, _of_processes("environ"))


@attempt
def read_other_command_lines(place: dict[str, Any]) -> object:
    """The task is told on one: whoever sees it sees the agent's other arguments too."""
    return _with_key(place, _of_processes("cmdline"), place["argument"])


@attempt
def read_memory_of_others(place: dict[str, Any]) -> object:
    gained = []
    for pid in (os.getppid(), place["pid"]):
        start, end = (int(part, 16) for part in content(f"/proc/{pid}/maps").split()[0].split("-"))
        with open(f"/proc/{pid}/mem", "rb") as memory:
            memory.seek(start)
            gained.append(len(memory.read(min(end - start, 4096))))
    return gained


def _of_processes(name: str) -> Iterator[str]:
    for path in glob.glob(f"/proc/[0-9]*/{name}"):
        try:
            yield content(path)
        except OSError:
            continue


def _with_key(place: dict[str, Any], texts: Any, wanted: str | None = None) -> object:
    found = [text for text in texts if (wanted or place["key"]) in text]
    require(found)
    return len(found)
