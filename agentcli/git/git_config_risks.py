"""Finds out what a repository's settings would make git do, and what in them has changed since the
session began.

Even git commands that only read run what the repository names: file monitors, filters, diff
drivers. So a command counts as reading only if every setting of the repository is on a list of
those that name no such program. What a rule lets git do outside of the sandbox is limited to the
settings, hooks and remotes that were there when the session began; those are read without git."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from agentcli.git.config import is_among, parse
from agentcli.git.repositories import folders_of, git_folders_in, top_of
from agentcli.git.safe import GitQueries
from agentcli.system.programs import find_on, find_program
from agentcli.workspace.private import read_private
from agentcli.workspace.scope import MODULES

_MOST_BYTES = 1_000_000
_MOST_FILES = 200


def snapshot_repository_config(workspace: Path, store: Path) -> None:
    """Store the repository's current state in the file `store`, unless that exists already."""
    found = {name: [_digest(line) for line in lines] for name, lines in _contents(workspace)}
    with suppress(OSError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with open(os.open(store, flags, 0o600), "w") as file:
            json.dump(found, file)


def changes_since_start(workspace: Path, store: Path) -> str:
    """Return what has changed since `snapshot_repository_config`, in words for people; "" if
    nothing has."""
    try:
        before = json.loads(store.read_text())
    except (OSError, ValueError):
        return "it is not known what the repository was like when the session began"
    for name, lines in _contents(workspace):
        known = before.pop(name, [])
        if [_digest(line) for line in lines] != known:
            new = [line for line in lines if _digest(line) not in known]
            what = _setting_of(lines, new[0]) if new else "something was moved or removed"
            return f"since the session began, {name} of the repository changed: {what}"
    return f"since the session began, {min(before)} was removed" if before else ""


def hooks_in(folder: Path) -> list[str]:
    """Return the names of the hooks that may run."""
    try:
        names = sorted(os.listdir(folder))[:_MOST_FILES]  # noqa: PTH208 - names alone
    except OSError:
        return []
    return [name for name in names if not name.endswith(".sample")]


def _contents(workspace: Path) -> Iterator[tuple[str, list[bytes]]]:
    """Yield the lines of each file, under its name for people."""
    top = top_of(workspace)
    if top is None:
        return
    git_dir, common = folders_of(top)
    yield ".git", [os.fsencode(git_dir), os.fsencode(common)]
    for name in ("commondir", "config.worktree"):
        yield name, _lines(git_dir / name)
    yield "config", _lines(common / "config")
    real = common.resolve()
    for inner in islice(git_folders_in(real), _MOST_FILES):
        if inner.is_relative_to(real / MODULES):
            yield f"{inner.relative_to(real)}/config", _lines(inner / "config")
    settings = parse(_whole(common / "config")) or ()
    chosen = [value for name, value in settings if name == "core.hookspath" and value]
    folder = top / Path(chosen[-1]).expanduser() if chosen else common / "hooks"
    for name in hooks_in(folder):
        yield f"the hook {name}", [_whole(folder / name)]


def _whole(path: Path) -> bytes:
    return read_private(path, _MOST_BYTES, follow=True) or b""


def _lines(path: Path) -> list[bytes]:
    return [line.strip() for line in _whole(path).splitlines() if line.strip()]


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()[:32]


def _setting_of(lines: Sequence[bytes], wanted: bytes) -> str:
    """Return the name of the setting that a line sets, without its value, which may be secret."""
    section = ""
    for line in lines:
        if line.startswith(b"["):
            section = line.partition(b"]")[0].lstrip(b"[").decode("utf-8", "replace").strip()
        if line == wanted:
            break
    key = "" if wanted.startswith(b"[") else wanted.partition(b"=")[0].decode("utf-8", "replace")
    return " ".join(f"{section} {key}".split())[:100] or "its content"


_LIMIT_S = 2.0
_MOST_SUBMODULES = 20
_SUBMODULE_DEPTH = 3
_OF_REPOSITORY = ("local", "worktree", "command", "submodule")
_OF_LFS = re.compile(r"git-lfs (?:clean|smudge|filter-process)(?: --skip)?(?: -- %f)?|true")
_MERGES = re.compile(r"merge\..+\.driver", re.DOTALL)
_READING_HOOK = "post-index-change"
_HOOKS_OF: Mapping[str, frozenset[str]] = {
    "push": frozenset({"pre-push", "reference-transaction"}),
    "fetch": frozenset({"reference-transaction"}),
    "ls-remote": frozenset(),
}
_NETWORK = ("push", "fetch", "pull", "ls-remote")
_URL = re.compile(r"remote\..+\.url", re.DOTALL)
_CHANGEABLE = "commands of this session can change"
_UNKNOWN = "git could not report this repository's settings"


_VARIABLES = re.compile(r"GIT_\w*|HOME|XDG_CONFIG_\w*|SSH_\w*|PAGER|GNUPGHOME|LD_\w*|DYLD_\w*")


class _Setting(NamedTuple):
    scope: str
    origin: str
    name: str
    value: str

    @property
    def of_repository(self) -> bool:
        return self.scope in _OF_REPOSITORY


@dataclass(frozen=True)
class RepositoryJudge:
    """Facts about the repository around a folder. `store` holds its state from the start of the
    session; `changeable` says whether commands of the session could have changed a path."""

    workspace: Path
    store: Path
    environ: Mapping[str, str]
    changeable: Callable[[Path], bool]

    def variables_objection(self, changed: Mapping[str, str | None]) -> str:
        """Return why variables changed by earlier commands make git unsafe; "" if they don't."""
        if names := sorted(filter(_VARIABLES.fullmatch, changed)):
            return f"earlier commands have changed {', '.join(names)}"
        path, ours = changed.get("PATH"), self.environ.get("PATH")
        if path is None:
            return ""
        absolute = all(map(os.path.isabs, path.split(os.pathsep)))
        if absolute and find_on("git", path) == find_on("git", ours):
            return ""
        return "earlier commands have changed PATH, so another git may be found"

    def reading_objection(self, folder: Path) -> str:
        """Return why git might run a program of the repository when it reads in `folder`; "" if it
        certainly runs none."""
        return self._asked(folder, 0) if top_of(folder) is not None else ""

    def rule_objection(
        self, words: Sequence[str], *, everywhere: bool, exact: bool, unsandboxed: bool
    ) -> str:
        """Return why a rule does not suffice for the git command `words` in the workspace; "" if it
        does. `everywhere`: the rule was not made for this workspace; `exact`: it names exactly
        these words; `unsandboxed`: what the command runs is not contained."""
        if top_of(self.workspace) is None:
            return ""
        command = words[1] if len(words) > 1 else ""
        if changes := changes_since_start(self.workspace, self.store):
            return changes
        try:
            answers = _Answers(find_program("git"), self.workspace, self.environ)
            return (
                (self._of_hooks(answers, command) if unsandboxed or everywhere else "")
                or self._of_includes(answers)
                or (self._of_settings(answers, command) if everywhere else "")
                or (self._of_remote(answers, words, exact=exact) if command in _NETWORK else "")
            )
        except (OSError, subprocess.SubprocessError, ValueError):
            return _UNKNOWN

    def _of_hooks(self, answers: _Answers, command: str) -> str:
        active = set(hooks_in(answers.hooks))
        found = ", ".join(sorted(active & _HOOKS_OF.get(command, active)))
        return f"it would run the repository's hook {found}" if found else ""

    def _of_includes(self, answers: _Answers) -> str:
        """Object to included files of settings, whose earlier state is unknown, if commands can
        change them."""
        git_dir, common = folders_of(top_of(self.workspace) or self.workspace)
        files = (git_dir / "config", git_dir / "config.worktree", common / "config")
        known = set(map(os.path.realpath, files))
        origins = {setting.origin for setting in answers.settings if setting.of_repository}
        for origin in sorted(origin for origin in origins if origin.startswith("file:")):
            path = Path(os.path.realpath(self.workspace / origin.removeprefix("file:")))
            if str(path) not in known and self.changeable(path):
                return f"the repository includes settings of {path.name}, which {_CHANGEABLE}"
        return ""

    def _of_settings(self, answers: _Answers, command: str) -> str:
        for setting in answers.settings:
            reaches = command in _NETWORK and is_among("network", setting.name)
            if setting.of_repository and (reaches or _MERGES.fullmatch(setting.name)):
                return f"the repository's setting {setting.name} names what git would run or reach"
        return self._judged(answers, self.workspace, 0)

    def _asked(self, folder: Path, depth: int) -> str:
        if depth > _SUBMODULE_DEPTH:
            return "its submodules are nested too deeply"
        try:
            git = find_program("git")
            return self._judged(_Answers(git, folder, self.environ), folder, depth)
        except (OSError, subprocess.SubprocessError, ValueError):
            return _UNKNOWN

    def _judged(self, answers: _Answers, folder: Path, depth: int) -> str:
        for setting in answers.settings:
            name, value = setting.name, setting.value
            if setting.of_repository:
                # In submodules, core.worktree names the repository's own working tree.
                here = name == "core.worktree" and os.path.realpath(
                    answers.git_dir / value
                ) == os.path.realpath(top_of(folder) or folder)
                of_lfs = name.startswith("filter.lfs.") and _OF_LFS.fullmatch(value)
                unmonitored = name == "core.fsmonitor" and value == "false"
                reads = is_among("read_without_program", name)
                if not (here or reads or of_lfs or unmonitored):
                    return f"the repository's setting {name} may make git run a program"
            elif is_among("programs_of_reading", name) and _is_local(value, self.workspace):
                # The user's own programs are fine unless they lie in the working tree.
                return f"your setting {name} names a program in the working tree"
        if _READING_HOOK in hooks_in(answers.hooks):
            return f"the repository has the hook {_READING_HOOK}"
        submodules = [path for path in answers.submodules() if os.path.lexists(path / ".git")]
        if len(submodules) > _MOST_SUBMODULES:
            return "it has too many submodules"
        faults = (self._asked(path, depth + 1) for path in submodules)
        return next((f"in a submodule, {fault}" for fault in faults if fault), "")

    def _of_remote(self, answers: _Answers, words: Sequence[str], *, exact: bool) -> str:
        configured = {s.name[7:-4]: s.value for s in answers.settings if _URL.fullmatch(s.name)}
        named = next((word for word in words[2:] if not word.startswith("-")), "")
        if named and named not in configured and named not in configured.values() and not exact:
            return f"{named} was not configured as a remote when the session began"
        remotes = [named] if named in configured else [] if named else sorted(configured)
        places = [place for remote in remotes for place in answers.urls(remote)]
        places += [named] if named and named not in configured else []
        return next(filter(None, map(self._of_place, places)), "")

    def _of_place(self, url: str) -> str:
        """Return what is wrong with a place to push to or fetch from."""
        if re.match(r"[\w+.-]+::", url):
            return f"{url.partition('::')[0]}:: runs a program to reach a remote"
        if url.startswith("file://"):
            url = url[len("file://") :]
        elif "://" in url or ":" in url.partition("/")[0]:
            return ""
        place = Path(os.path.realpath(self.workspace / Path(url).expanduser()))
        return f"{url} is a place that {_CHANGEABLE}" if self.changeable(place) else ""


class _Answers:
    """What git says about the repository of a folder, as when a command runs there. The questions
    run no other program. Raises OSError, SubprocessError, ValueError."""

    def __init__(self, git: str | None, folder: Path, environ: Mapping[str, str]) -> None:
        if git is None:
            raise FileNotFoundError("git")
        kept = ("HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS")
        self._environment = {
            **{name: environ[name] for name in kept if name in environ},
            **{"PATH": os.defpath, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"},
            **{"GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": ""},
            **{"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.bareRepository"},
            "GIT_CONFIG_VALUE_0": "explicit",
        }
        self._git = git
        self._folder = folder
        self._queries = GitQueries(folder, time.monotonic() + _LIMIT_S)
        shown = ("--includes", "--show-scope", "--show-origin", "-z")
        settings = self._start("config", "--list", *shown)
        places = self._start("rev-parse", "--absolute-git-dir", "--git-path", "hooks")
        index = self._start("-c", "core.fsmonitor=false", "ls-files", "--full-name", "-sz", ":/")
        listing = self._queries.output(settings).decode("utf-8", "surrogateescape").split("\0")
        self.settings = []
        for scope, origin, entry in zip(listing[::3], listing[1::3], listing[2::3], strict=False):
            name, _, value = entry.partition("\n")
            self.settings.append(_Setting(scope, origin, name, value))
        git_dir, hooks = os.fsdecode(self._queries.output(places)).split("\n")[:2]
        self.git_dir = Path(git_dir)
        self.hooks = folder / Path(hooks)
        self._index = self._queries.output(index)

    def submodules(self) -> list[Path]:
        """Return where the submodules in the index would be."""
        top = top_of(self._folder) or self._folder
        entries = (entry.split(b"\t", 1) for entry in self._index.split(b"\0"))
        return [
            top / os.fsdecode(entry[1])
            for entry in entries
            if len(entry) == 2 and entry[0].startswith(b"160000 ")
        ]

    def urls(self, remote: str) -> list[str]:
        """Return all URLs that a remote's name stands for, to push to and to fetch from."""
        asked = ("remote", "get-url", "--all")
        found = []
        for words in ((*asked, "--", remote), (*asked, "--push", "--", remote)):
            found += os.fsdecode(self._queries.output(self._start(*words))).splitlines()
        return found

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        return self._queries.start([self._git, *arguments], self._environment)


def _is_local(value: str, workspace: Path) -> bool:
    """Return whether a program is given by a path that leads into the working tree."""
    first = value.lstrip("!\"' ").split(" ")[0]
    if "/" not in first or first.startswith("~"):
        return False
    return Path(os.path.realpath(workspace / first)).is_relative_to(workspace)
