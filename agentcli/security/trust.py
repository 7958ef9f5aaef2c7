"""Which folders the user trusts, by their contents: if a file changes, the user is asked again."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentcli.errors import ConfigError
from agentcli.workspace.names import PROJECT_SKILL_FOLDERS
from agentcli.workspace.private import (
    WRITABLE_BY_OTHERS,
    NotRegular,
    locked,
    open_regular,
    replace_durably,
)

PROJECT_CONFIG = ".agent/config.toml"
HOOK_FOLDER = ".agent/hooks"
COMMAND_FOLDER = ".agent/commands"
AGENT_FOLDER = ".agents/agents"
TOOL_SERVERS = ".mcp.json"
MAX_FILES = 1_000
MAX_FILE_BYTES = 1_000_000
MAX_HOOK_BYTES = 20_000_000
_MAX_ENTRIES = 10_000
_MAX_DEPTH = 32
_SHOWN = frozenset({PROJECT_CONFIG, TOOL_SERVERS})
_KEPT_FOLDERS = (f"{HOOK_FOLDER}/", f"{COMMAND_FOLDER}/", f"{AGENT_FOLDER}/")
_TEXT_SUFFIXES = (".md", ".txt")
_NOT_OWN = "belongs to or can be written by another user, so it can't be trusted"
_VERSION = 1
_MAX_BYTES = 50_000_000
"""Largest store that is read: 500 folders with as many files as allowed."""


@dataclass(frozen=True)
class Fingerprint:
    """What in a folder would take effect if it were trusted."""

    workspace: Path
    """Resolved."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Path in the workspace, with slashes -> hex digest of content and executability."""
    contents: Mapping[str, bytes] = field(default_factory=dict)
    """The digested bytes of the files for settings, hooks, commands and agents."""
    runnable: frozenset[str] = frozenset()
    """Those of `contents` that are executable."""
    fault: str = ""
    """Why the folder can't be trusted at all."""


@dataclass(frozen=True)
class TrustState:
    """What is known about a folder. `changed` are the files that differ from when it was trusted,
    including new and missing ones. `never`: the user does not want to be asked."""

    trusted: bool = False
    known: bool = False
    never: bool = False
    changed: tuple[str, ...] = ()


class _CannotVouch(Exception):
    """Something in the folder can't be read in a way that can be vouched for."""


def fingerprint(workspace: Path) -> Fingerprint:
    """Read what would take effect, each file once, without following symlinks."""
    workspace = workspace.resolve()
    reader = _Reader(workspace)
    try:
        reader.file(PROJECT_CONFIG)
        reader.file(TOOL_SERVERS)
        reader.tree(HOOK_FOLDER)
        reader.tree(COMMAND_FOLDER)
        reader.tree(AGENT_FOLDER)
        for folder in PROJECT_SKILL_FOLDERS:
            reader.skills(folder)
    except _CannotVouch as fault:
        return Fingerprint(workspace, fault=str(fault))
    except OSError as error:
        return Fingerprint(workspace, fault=f"it can't be read: {error.strerror}")
    files = dict(sorted(reader.files.items()))
    return Fingerprint(workspace, files, reader.contents, frozenset(reader.runnable))


class TrustStore:
    """The folders that the user trusts, in a JSON file that only they can access. Raises
    ConfigError if it can't be read or written, or if others could have changed it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def state_of(self, found: Fingerprint) -> TrustState:
        """Compare what was found now with what was trusted."""
        record = self._folders().get(str(found.workspace))
        if record is None:
            return TrustState()
        if record.get("never"):
            return TrustState(never=True)
        before = record.get("files", {})
        if found.fault:
            return TrustState(known=True)
        names = sorted({*before, *found.files})
        changed = tuple(name for name in names if before.get(name) != found.files.get(name))
        return TrustState(trusted=not changed, known=True, changed=changed)

    def trust(self, found: Fingerprint) -> None:
        """Let what was found take effect from now on, until it changes."""
        if found.fault:
            raise ConfigError(f"{found.workspace} can't be trusted: {found.fault}")
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._changing() as folders:
            folders[str(found.workspace)] = {"trusted_at": now, "files": dict(found.files)}

    def never_ask(self, workspace: Path) -> None:
        with self._changing() as folders:
            folders[str(workspace.resolve())] = {"never": True}

    def revoke(self, workspace: Path) -> bool:
        """Forget a folder, even a "never"; return whether it was known."""
        with self._changing() as folders:
            return folders.pop(str(workspace.resolve()), None) is not None

    def folders(self) -> dict[str, str]:
        """Return every trusted folder with the time (ISO 8601, UTC) when it was trusted."""
        return {
            folder: str(record.get("trusted_at", ""))
            for folder, record in sorted(self._folders().items())
            if not record.get("never")
        }

    def _folders(self) -> dict[str, dict[str, Any]]:
        try:
            with open_regular(self._path) as file:
                status = os.fstat(file.fileno())
                if status.st_uid != os.geteuid() or status.st_mode & WRITABLE_BY_OTHERS:
                    raise self._unusable(_NOT_OWN)
                text = file.read(_MAX_BYTES + 1)
            if len(text) > _MAX_BYTES:
                raise self._unusable("is damaged")
            data = json.loads(text)
        except FileNotFoundError:
            return {}
        except (NotRegular, IsADirectoryError) as error:
            raise self._unusable(_NOT_OWN) from error
        except OSError as error:
            raise ConfigError(f"{self._path} can't be read: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise self._unusable("is damaged") from error
        folders = data.get("folders") if isinstance(data, dict) else None
        if not isinstance(folders, dict) or data.get("version") != _VERSION:
            raise self._unusable("is damaged")
        records = list(folders.values())
        if not all(isinstance(r, dict) and isinstance(r.get("files", {}), dict) for r in records):
            raise self._unusable("is damaged")
        return folders

    def _unusable(self, why: str) -> ConfigError:
        hint = "delete it; agent then asks about each folder again"
        return ConfigError(f"{self._path} {why}", hint=hint)

    @contextmanager
    def _changing(self) -> Iterator[dict[str, dict[str, Any]]]:
        """Yield the content of the file to be changed, while no other process changes it."""
        try:
            with locked(self._path):
                folders = self._folders()
                yield folders
                body = json.dumps({"version": _VERSION, "folders": folders}, indent=1).encode()
                replace_durably(self._path, body)
        except OSError as error:
            raise ConfigError(f"{self._path} can't be written: {error.strerror}") from error


class _Reader:
    """Reads files below a folder. Each part of a path is opened from the one before, never through
    a symlink."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.files: dict[str, str] = {}
        self.contents: dict[str, bytes] = {}
        self.runnable: set[str] = set()
        self._kept_bytes = 0
        self._entries = 0

    def file(self, name: str) -> None:
        """Read one file, if it exists."""
        *folders, last = name.split("/")
        with self._opened("/".join(folders)) as folder:
            if folder is not None:
                self._take(folder, last, name)

    def tree(self, name: str) -> None:
        """Read every file in a folder, if that exists."""
        with self._opened(name) as folder:
            if folder is None:
                return
            for entry in sorted(os.listdir(folder)):  # noqa: PTH208 (a handle)
                path = f"{name}/{entry}"
                self._entries += 1
                if self._entries > _MAX_ENTRIES or path.count("/") > _MAX_DEPTH:
                    raise _CannotVouch(f"{name} holds too much to look through")
                if stat.S_ISDIR(os.stat(entry, dir_fd=folder, follow_symlinks=False).st_mode):
                    self.tree(path)
                else:
                    self._take(folder, entry, path)

    def skills(self, name: str) -> None:
        """Like `tree`, but ignores the folder if it contains nothing but text."""
        skills = _Reader(self._root)
        skills.files = dict(self.files)
        skills.tree(name)
        new = [file for file in skills.files if file not in self.files]
        if any(not file.endswith(_TEXT_SUFFIXES) for file in new):
            self.files = skills.files

    def _take(self, folder: int, entry: str, name: str) -> None:
        handle = self._open(entry, folder, name, os.O_NONBLOCK)
        if handle is None:
            return
        with open(handle, "rb") as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise _CannotVouch(f"{name} is not a file")
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise _CannotVouch(f"{name} is larger than {MAX_FILE_BYTES:,} bytes")
        if len(self.files) >= MAX_FILES:
            raise _CannotVouch(f"there are more than {MAX_FILES:,} files that would take effect")
        runs = status.st_mode & 0o111
        self.files[name] = hashlib.sha256((b"x" if runs else b"-") + data).hexdigest()
        if name in _SHOWN or name.startswith(_KEPT_FOLDERS):
            self._kept_bytes += len(data)
            if self._kept_bytes > MAX_HOOK_BYTES:
                folders = f"{HOOK_FOLDER}, {COMMAND_FOLDER} and {AGENT_FOLDER}"
                raise _CannotVouch(f"{folders} hold more than {MAX_HOOK_BYTES:,} bytes")
            self.contents[name] = data
            if runs:
                self.runnable.add(name)

    @contextmanager
    def _opened(self, name: str) -> Iterator[int | None]:
        """Yield a handle on a folder below the root; None if it does not exist."""
        current: int | None = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for part in [part for part in name.split("/") if part]:
                assert current is not None
                below = self._open(part, current, name, os.O_DIRECTORY)
                os.close(current)
                current = below
                if current is None:
                    break
            yield current
        finally:
            if current is not None:
                os.close(current)

    def _open(self, entry: str, folder: int, name: str, flags: int) -> int | None:
        """Return None if it does not exist."""
        try:
            return os.open(entry, os.O_RDONLY | os.O_NOFOLLOW | flags, dir_fd=folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            linked = error.errno in (errno.ELOOP, errno.EMLINK) or stat.S_ISLNK(
                os.stat(entry, dir_fd=folder, follow_symlinks=False).st_mode
            )
            if linked:
                raise _CannotVouch(f"{name} leads through a link") from error
            if error.errno == errno.ENOTDIR:
                return None
            raise _CannotVouch(f"{name} can't be read: {error.strerror}") from error
