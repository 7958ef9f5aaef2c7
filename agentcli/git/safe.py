"""Asks git about a repository that someone else made, without running anything of theirs.

A repository's configuration names programs: file monitors, hooks, content filters, diff drivers,
transport commands, and further files of configuration. New versions of git add more, so we do not
override them one by one. Whatever looks at the working tree runs on a git folder of our own beside
theirs, which uses their objects and index but only our configuration. Only questions that run
nothing, about references and settings, are asked of the repository itself. The maker of a
repository chose where it keeps its data, so we do not ask if the session may not read that place.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentcli.git.repositories import top_of


def setting_options(settings: Mapping[str, str]) -> list[str]:
    """Return the options of git that apply these settings."""
    return [word for item in settings.items() for word in ("-c", "=".join(item))]


@dataclass(frozen=True)
class GitQueries:
    """git commands run in `folder` with no environment but what each is given. All answers must
    arrive by `deadline`, a time of the monotonic clock."""

    folder: Path
    deadline: float

    def start(
        self, command: Sequence[str], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def output(self, process: subprocess.Popen[bytes], ok: int = 0) -> bytes:
        """Return what git printed. Raises SubprocessError if it took too long, or ended with an
        exit code other than 0 and `ok`."""
        try:
            out, _ = process.communicate(timeout=max(self.deadline - time.monotonic(), 0.01))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        if process.returncode not in (0, ok):
            raise subprocess.CalledProcessError(process.returncode, "git")
        return out


SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.attributesFile": os.devnull,
    "core.untrackedCache": "false",
    "core.protectNTFS": "false",
    "core.protectHFS": "false",
    "core.quotePath": "false",
    "core.pager": "cat",
    "core.sshCommand": "false",
    "diff.external": "",
    "gc.auto": "0",
    "log.showSignature": "false",
    "maintenance.auto": "false",
    "protocol.allow": "never",
    "submodule.recurse": "false",
}
ENVIRONMENT = {
    "PATH": os.defpath,
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    # Unlike protocol.allow, this can't be overridden for a single protocol. Before git 2.45, only
    # this keeps a partial clone from fetching the objects it lacks.
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_SSH_COMMAND": "false",
}
"""The entire environment of our git calls, apart from a few variables they add."""

_CONVERSIONS = r"^core\.(filemode|autocrlf|eol|ignorecase|precomposeunicode|symlinks|safecrlf)$"
_HARMLESS_VALUE = re.compile(r"true|false|input|lf|crlf|native|warn|", re.I)
_CURRENT = (
    "%(if)%(HEAD)%(then)%(refname:lstrip=2)%(if)%(upstream)%(then)...%(upstream:lstrip=2)"
    "%(if)%(upstream:track)%(then) %(upstream:track)%(end)%(end)%(end)"
)
_OID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_MAX_COPIED_BYTES = 1_000_000
_MOST_PLACES = 5_000
_DEEPEST_ALTERNATES = 5
"""git's own limit."""


@dataclass(frozen=True, slots=True)
class RepositoryStatus:
    """`branch` includes the upstream, `changes` are lines of `git status --porcelain`, `commits`
    are the latest ones as short id and subject."""

    branch: str
    changes: tuple[str, ...]
    commits: tuple[str, ...]


def command(git: str, *arguments: str) -> list[str]:
    """Return a command line for `git` that starts no pager, hook, monitor or transport."""
    return [git, "--no-pager", *setting_options(SETTINGS), *arguments]


def format_settings(oid: str) -> str:
    """Return the settings of a git folder of our own for objects with ids like `oid`."""
    newer = "repositoryformatversion = 1\n[extensions]\nobjectFormat = sha256\n"
    return "[core]\n" + newer * (len(oid) == 64)


def repository_status(
    workspace: Path, git: str, limit_s: float, may_read: Callable[[Path], bool]
) -> RepositoryStatus | None:
    """Return the status of the repository around `workspace`. Returns None if there is none, if any
    part of it may not be read by its resolved path, or if git takes over `limit_s` seconds."""
    top = top_of(workspace)
    if top is None:
        return None
    try:
        return _Repository(top, git, time.monotonic() + limit_s, may_read).status()
    except (OSError, subprocess.SubprocessError, ValueError, RuntimeError):
        return None


class _Repository:
    def __init__(
        self, top: Path, git: str, deadline: float, may_read: Callable[[Path], bool]
    ) -> None:
        self._top = top
        self._git = git
        self._queries = GitQueries(top, deadline)
        self._may_read = may_read

    def status(self) -> RepositoryStatus | None:
        theirs = self._start(
            "rev-parse",
            *("--absolute-git-dir", "--git-path", "config"),
            *("--git-path", "index", "--git-path", "objects", "--git-path", "shallow"),
            *("--git-path", "info/exclude", "--verify", "-q", "HEAD"),
        )
        current = self._start("for-each-ref", f"--format={_CURRENT}", "refs/heads")
        conversions = self._start("config", "-z", "--get-regexp", _CONVERSIONS)
        unborn = self._start("symbolic-ref", "-q", "--short", "HEAD")
        folder, config, *places, oid = [*self._answer(theirs, ok=1).splitlines(), ""][:7]
        branch = self._answer(current).strip()
        settings = _harmless(self._answer(conversions, ok=1))
        name = self._answer(unborn, ok=1).strip()
        # These git folders must be readable, along with the targets of their symlinks and the
        # object folders that they borrow from.
        reached = (p for f in {folder, str(Path(config).parent)} for p in _places(self._top / f))
        if len(places) != 4 or not all(
            number < _MOST_PLACES and self._may_read(place.resolve())
            for number, place in enumerate(reached)
        ):
            return None
        index, objects, shallow, exclude = (self._top / place for place in places)
        with tempfile.TemporaryDirectory(prefix="agent-git-") as folder:
            ours = Path(folder)
            _furnish(ours, oid, index.parent, shallow, exclude)
            environment = {
                "GIT_DIR": folder,
                "GIT_WORK_TREE": str(self._top),
                "GIT_INDEX_FILE": str(index),
                "GIT_OBJECT_DIRECTORY": str(objects),
            }
            status = ("status", "--porcelain", "--no-renames", "--ignore-submodules=all")
            changes = self._start(*settings, *status, environment=environment)
            log = self._start("log", "-3", "--format=%h %<(72,trunc)%s", environment=environment)
            commits = self._answer(log, ok=128).splitlines()
            return RepositoryStatus(
                branch or (name and f"{name}, no commit yet") or f"no branch, at {oid[:10]}",
                tuple(self._answer(changes).splitlines()),
                tuple(commit.strip() for commit in commits),
            )

    def _start(
        self, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Run a question in the repository itself, or with an `environment` that names another git
        folder."""
        where = environment or {"GIT_DIR": str(self._top / ".git")}
        home = {
            name: os.environ[name] for name in ("HOME", "XDG_CONFIG_HOME") if name in os.environ
        }
        settings = {**home, **ENVIRONMENT, **where}
        return self._queries.start(command(self._git, *arguments), settings)

    def _answer(self, process: subprocess.Popen[bytes], ok: int = 0) -> str:
        return self._queries.output(process, ok).decode(errors="backslashreplace")


def _furnish(ours: Path, oid: str, theirs: Path, shallow: Path, exclude: Path) -> None:
    """Make `ours` a git folder that takes only data from theirs: where HEAD is, where history was
    cut off, which names are ignored, and the parts of a split index."""
    for name in ("objects", "refs", "info"):
        (ours / name).mkdir()
    born = _OID.fullmatch(oid) is not None
    (ours / "HEAD").write_text(f"{oid}\n" if born else "ref: refs/heads/none\n")
    (ours / "config").write_text(format_settings(oid))
    for source, target in ((shallow, ours / "shallow"), (exclude, ours / "info" / "exclude")):
        with contextlib.suppress(FileNotFoundError):
            handle = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
            with open(handle, "rb") as file:
                target.write_bytes(file.read(_MAX_COPIED_BYTES))
    for part in theirs.glob("sharedindex.*"):
        (ours / part.name).symlink_to(part)


def _places(folder: Path) -> Iterator[Path]:
    """Yield a git folder and every place that its symlinks and alternates lead to. Symlinks of
    single objects and references are not followed: nobody can name one without reading its
    target."""
    yield folder
    for inner in (folder, folder / "refs", folder / "info"):
        yield from _links(inner)
    yield from _object_places(folder / "objects")


def _object_places(objects: Path, depth: int = 0) -> Iterator[Path]:
    if depth > _DEEPEST_ALTERNATES:
        raise RuntimeError(f"{objects} borrows from too many")
    for inner in (objects, objects / "info", objects / "pack"):
        yield from _links(inner)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        handle = os.open(objects / "info" / "alternates", os.O_RDONLY | os.O_NONBLOCK)
        with open(handle, "rb") as file:
            lines = file.read(_MAX_COPIED_BYTES).splitlines()
        for line in filter(None, lines):
            # Quoted lines are rare, and we do not parse them.
            if line.startswith(b'"'):
                raise RuntimeError(f"{objects} borrows from a place that can't be told")
            if not line.startswith(b"#"):
                other = objects / os.fsdecode(line)
                yield other
                yield from _object_places(other, depth + 1)


def _links(folder: Path) -> Iterator[Path]:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                yield Path(entry.path)


def _harmless(listing: str) -> list[str]:
    """Return options for the settings that say how content becomes files, if their values are known
    words."""
    options = []
    for entry in listing.split("\0"):
        name, _, value = entry.partition("\n")
        if name and _HARMLESS_VALUE.fullmatch(value):
            options += ["-c", f"{name}={value}"]
    return options
