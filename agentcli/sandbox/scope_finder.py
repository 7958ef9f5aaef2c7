"""Derives a session's access scope from its workspace and the user's environment.

`secret_places.txt` lists where secrets are kept: the usual places, and variables that name others.
Its sources are firejail's `disable-common.inc`, `disable-programs.inc` and
`disable-passwdmgr.inc`, and what programs document about their variables. `shown_places.txt` lists
what a confined session may read besides the workspace: the system, and the languages and tools that
the user has installed at home."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from agentcli.git.config import referenced_paths
from agentcli.git.repositories import (
    Repository,
    find_repository,
    is_git_folder,
    nested_repositories,
    repository_at,
)
from agentcli.sandbox.environment import read_words
from agentcli.system import programs
from agentcli.system.homes import user_home
from agentcli.workspace.private import WRITABLE_BY_OTHERS
from agentcli.workspace.scope import TMP, AccessScope

_BASES = {
    ".config": "XDG_CONFIG_HOME",
    ".local/share": "XDG_DATA_HOME",
    ".local/state": "XDG_STATE_HOME",
    ".cache": "XDG_CACHE_HOME",
}
_A_PATH = re.compile(r"/[^\0-\x1f\"{}<>|]{1,1000}")
_NEVER = ("/dev/", "/proc/", "/sys/")
"""Nothing is kept here: a variable set to such a path (/dev/null) means that there is no file."""


def secret_places(home: str, environ: Mapping[str, str], workspace: str) -> Iterator[Path]:
    """Yield the resolved places, including missing ones, which may appear later. Relative values of
    variables are resolved in `workspace`."""
    resolve = _Resolver()
    for place in dict.fromkeys(_places(home, environ, workspace)):
        yield Path(resolve(place))


class _Resolver:
    """Like `os.path.realpath`, but scans each folder only once, as most hold several places."""

    def __init__(self) -> None:
        self._folders: dict[str, tuple[str, frozenset[str]]] = {"": ("", _links("/"))}
        """For each folder: its real path and the names of the symlinks in it."""

    def __call__(self, place: str) -> str:
        folder, _, name = place.rpartition("/")
        if folder not in self._folders:
            real = self(folder)
            self._folders[folder] = real, _links(real)
        real, links = self._folders[folder]
        return os.path.realpath(place) if name in links else f"{real}/{name}"


def _links(folder: str) -> frozenset[str]:
    try:
        with os.scandir(folder) as entries:
            return frozenset(entry.name for entry in entries if entry.is_symlink())
    except (OSError, ValueError):
        return frozenset()


def _places(home: str, environ: Mapping[str, str], workspace: str) -> Iterator[str]:
    moved = {
        base: os.path.normpath(folder)
        for base, name in _BASES.items()
        if (folder := environ.get(name, "")).startswith("/") and folder != f"{home}/{base}"
    }
    for word in read_words("secret_places"):
        if word.startswith("$"):
            name, _, rest = word[1:].partition("/")
            yield from _named(environ.get(name, ""), rest, home, workspace)
        elif word.startswith("/"):
            yield word
        else:
            yield f"{home}/{word}"
            for base, folder in moved.items():
                if word.startswith(f"{base}/"):
                    yield folder + word[len(base) :]


def _named(value: str, rest: str, home: str, workspace: str) -> Iterator[str]:
    """Yield the places in the value of a variable: one, or several separated by colons."""
    for part in value.split(":") if value else ():
        place = f"{part}/{rest}" if rest else part
        place = home + place[1:] if place.startswith("~/") else place
        if not place.startswith("/"):
            place = f"{workspace}/{place}"
            if not os.path.lexists(place):
                continue
        place = os.path.normpath(place)
        # Hiding the whole home or system because a value names it would break all work.
        broad = place.count("/") < 2 or f"{home}/".startswith(f"{place}/")
        if _A_PATH.fullmatch(place) and not broad and not f"{place}/".startswith(_NEVER):
            yield place


_NOT_COVERED = ("/proc", "/dev", "/sys", "/tmp", "/run")
"""Commands get their own version of these, or there is nothing personal in them."""


def shown_places(home: Path, environ: Mapping[str, str], workspace: Path) -> tuple[Path, ...]:
    """Return the resolved places that exist; never the home folder, the workspace or what contains
    them."""
    found: dict[Path, None] = {}
    words = read_words("shown_places")
    system = {word for word in words if word.startswith("/")}
    for place in _shown_places_places(words, home, environ, workspace):
        path = Path(os.path.realpath(place))
        broad = home.is_relative_to(path) or workspace.is_relative_to(path)
        if path.exists() and (not broad or place in system):
            found[path] = None
    return tuple(p for p in found if not any(other in found for other in p.parents))


def masked_places(shown: tuple[Path, ...], home: Path) -> tuple[Path, ...]:
    """Return the entries of the root, and the home folder, that are not `shown` as a whole."""
    top = [Path(entry.path) for entry in os.scandir("/") if not entry.is_symlink()]
    covered = [p for p in top if p not in shown and str(p) not in _NOT_COVERED]
    inside = any(home != place and home.is_relative_to(place) for place in covered)
    return (*covered, home) if inside else tuple(covered)


def _shown_places_places(
    words: Iterable[str], home: Path, environ: Mapping[str, str], workspace: Path
) -> Iterator[str | Path]:
    for word in words:
        if not word.startswith("$"):
            yield word if word.startswith("/") else home / word
            continue
        values = environ.get(word[1:], "").split(os.pathsep)
        yield from (place for place in values if place.startswith("/"))
    for folder in environ.get("PATH", "").split(os.pathsep):
        if folder.startswith("/"):
            # The root of the installation, or the folder itself if several installations share it.
            above, name = Path(folder).parent, Path(folder).name
            alone = above in (home, home / ".local") or name not in ("bin", "sbin", "shims")
            yield Path(folder) if alone else above
    yield from (sys.prefix, sys.base_prefix)
    for folder in (f"{workspace}/.venv", f"{workspace}/venv", environ.get("VIRTUAL_ENV", "")):
        interpreter = os.path.realpath(f"{folder}/bin/python")
        if folder.startswith("/") and os.access(interpreter, os.X_OK):
            yield Path(interpreter).parents[1]


_SETTINGS = (".agent/config.toml", ".agent/hooks")
"""What a workspace contains for the agent itself. It was trusted, so commands must not change
it."""
_HOST_KEYS = Path("/etc/ssh")
_SOCKET_VARIABLES = (
    *("SSH_AUTH_SOCK", "DOCKER_HOST", "CONTAINER_HOST", "DBUS_SESSION_BUS_ADDRESS"),
    *("GPG_AGENT_INFO", "TMUX", "STY", "NVIM", "VSCODE_IPC_HOOK_CLI", "VSCODE_GIT_IPC_HANDLE"),
)


def find_access_scope(
    workspace: Path,
    environ: Mapping[str, str],
    *,
    tmp: Path,
    writable: Sequence[Path] = (),
    agent_files: Sequence[Path] = (),
    readable: Sequence[Path] = (),
    confined: bool = False,
    only_named: bool = False,
) -> AccessScope:
    """Find the access scope of a session in `workspace`.

    `writable` are further folders that the user named. `agent_files` are the agent's settings and
    state, of which commands may see only `readable`, such as a session's outputs. `tmp` is the
    session's folder that commands find at /tmp. `confined`: only the workspace, these folders and
    the system's may be read. `only_named`: of the workspace, only what the user named is writable.

    The repository's root is writable, unless that is the home folder or above it; then only the
    workspace is. A secret folder that the user chose as workspace is not hidden.
    """
    workspace = workspace.resolve()
    home = user_home(environ)
    repository = find_repository(workspace)
    roots = [] if only_named else [workspace]
    if roots and repository is not None and not home.is_relative_to(repository.root):
        roots = [repository.root, *repository.folders]
    roots += [path.resolve() for path in writable]
    repositories = list(_repositories(repository, dict.fromkeys(roots)))
    git_folders = tuple(dict.fromkeys(f for each in repositories for f in each.git_folders()))
    settings = [f / name for f in git_folders for name in ("config", "config.worktree")]
    top = repository.root if repository is not None else workspace
    referenced, problems = referenced_paths(top, settings, environ, roots)
    ours = _resolved(agent_files)
    confined_to = shown_places(home, environ, workspace) if confined else ()
    return AccessScope(
        workspace=workspace,
        home=home,
        writable=_without_nested(roots),
        protected=_protected(workspace, roots, repositories, referenced),
        git_folders=git_folders,
        hidden=(*ours, *_secrets(home, environ, workspace, roots)),
        readable=_resolved((*readable, *_programs_in_tmp(environ, TMP))),
        confined_to=confined_to,
        masked=masked_places(confined_to, home) if confined else (),
        agent_files=ours,
        # If /tmp itself is writable, the session's folder keeps its own path.
        mounts={tmp.resolve() if TMP in roots else TMP: tmp.resolve()},
        problems=tuple(problems),
    )


def _repositories(repository: Repository | None, roots: Iterable[Path]) -> Iterator[Repository]:
    """Yield the repository of the workspace, and those that the folders `roots` are, have or
    contain near the top."""
    if repository is not None:
        yield repository
    for root in roots:
        if is_git_folder(root):
            yield Repository(root, (root,))
            continue
        if (other := repository_at(root)) is not None:
            yield other
        yield from nested_repositories(root)


def _protected(
    workspace: Path,
    roots: Sequence[Path],
    repositories: Iterable[Repository],
    named: Iterable[Path],
) -> tuple[Path, ...]:
    """Return the protected places, including those `named` by git's settings."""
    ours = [workspace / name for name in _SETTINGS]
    installed = map(Path, programs.installed_in(roots)[0])
    of_git = [path for each in repositories for path in each.protected()]
    present = [path for path in ours if path.exists()]
    return tuple(dict.fromkeys([*of_git, *present, *installed, *named]))


def _secrets(
    home: Path, environ: Mapping[str, str], workspace: Path, roots: Iterable[Path]
) -> Iterator[Path]:
    """Yield secret places, including missing ones, which may appear during the session. Leaves out
    what is one of the `roots` or contains one: the user chose that."""
    around = {str(folder) for root in roots for folder in (root, *root.parents)}
    places = sorted(_HOST_KEYS.glob("ssh_host_*_key"))
    places += [path for name in _SOCKET_VARIABLES for path in _socket_paths(environ.get(name, ""))]
    found = list(secret_places(str(home), environ, str(workspace)))
    for place in places:
        with suppress(OSError, RuntimeError):
            found.append(place.resolve())
    yield from (place for place in found if str(place) not in around)


def _socket_paths(value: str) -> Iterator[Path]:
    """Yield sockets from `/path`, `unix:///path`, `unix:path=/path,guid=…`, `/path,pid,number`."""
    for part in value.replace("unix:path=", "").replace("unix://", "").split(","):
        # After `su`, a socket of another user is out of reach for commands anyway.
        with suppress(OSError):
            if part.startswith("/") and Path(part).is_socket():
                yield Path(part)


def _programs_in_tmp(environ: Mapping[str, str], tmp: Path) -> Iterator[Path]:
    """Yield virtual environments and program folders that would vanish when /tmp is replaced."""
    places = [environ.get("VIRTUAL_ENV", ""), environ.get("CONDA_PREFIX", ""), sys.prefix]
    places += environ.get("PATH", "").split(os.pathsep)
    for place in map(Path, filter(None, places)):
        # After `su`, a folder of another user has no programs for us.
        with suppress(PermissionError):
            if tmp in place.parents and place.is_dir():
                is_environment = (place.parent / "pyvenv.cfg").is_file()
                yield place.parent if is_environment else place


def _resolved(paths: Sequence[Path]) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(path.resolve() for path in paths))


def _without_nested(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Drop paths within others, except paths in /tmp, which a folder around /tmp does not show."""
    unique = dict.fromkeys(paths)

    def is_nested(path: Path) -> bool:
        around = (q for q in unique if q in path.parents)
        return any(not path.is_relative_to(TMP) or q.is_relative_to(TMP) for q in around)

    return tuple(path for path in unique if not is_nested(path))


_MOST = 20
"""Most paths taken from one message; someone who means more means a folder."""
_LONGEST = 4096
_PATH = re.compile(
    r"""(?<![\w./~$}-])(?:file://)?(?:
        "(?P<double>/tmp/[^"\n]+)" | '(?P<single>/tmp/[^'\n]+)' | `(?P<back>/tmp/[^`\n]+)`
        | (?P<bare>/tmp/(?:\\[ ]|[^\s"'`<>|&;()\\\0])+)
    )""",
    re.VERBOSE,
)
_AFTER_A_PATH = ".,:;!?]}…"
"""Characters that end a sentence rather than belong to a path."""


def paths_named(text: str) -> list[Path]:
    """Return the existing paths below /tmp that appear in what a user typed, in order and
    normalized, without `..`."""
    found: dict[Path, None] = {}
    for match in _PATH.finditer(text[:_LONGEST]):
        for candidate in _candidates(match):
            path = Path(os.path.normpath(candidate))
            if path.is_relative_to(TMP) and path != TMP and os.path.lexists(path):
                found[path] = None
                break
    return list(found)[:_MOST]


def _candidates(match: re.Match[str]) -> Iterator[str]:
    bare = match["bare"]
    if bare is None:
        yield match["double"] or match["single"] or match["back"]
        return
    bare = bare.replace("\\ ", " ")
    yield bare
    shorter = bare.rstrip(_AFTER_A_PATH)
    yield shorter
    # path:line and path:line:column, as compilers write them.
    yield re.sub(r"(:\d+){1,2}$", "", shorter)


def why_not_shown(path: Path, scope: AccessScope) -> str:
    """Return why `path`, which lies below /tmp, must not be shown to a session; "" if it may be."""
    if any(place.is_relative_to(path) or path.is_relative_to(place) for place in scope.hidden):
        return "agent's own files or secrets lie there"
    private = scope.mounts.get(TMP)
    if private is not None:
        inner = path.relative_to(TMP)
        if any((private / part).is_symlink() for part in (inner, *inner.parents)):
            return "the session has put a link in its place"
    try:
        return _what_is_wrong(path)
    except OSError as error:
        return f"it can't be read: {error.strerror}"


def _what_is_wrong(path: Path) -> str:
    """Return what is wrong with the path, or "". Raises OSError."""
    folder = os.open(TMP, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in path.relative_to(TMP).parts:
            inner = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder = inner
            info = os.fstat(folder)
            if info.st_uid != os.geteuid():
                return "it belongs to another user"
            if stat.S_ISLNK(info.st_mode):
                return "it leads through a link"
            if stat.S_ISDIR(info.st_mode) and info.st_mode & WRITABLE_BY_OTHERS:
                return "other users can change what lies there"
        if not (stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)):
            return "it is neither a file nor a folder"
        if stat.S_ISREG(info.st_mode) and info.st_nlink > 1:
            return "it is a hard link, and may be another file"
        return ""
    finally:
        os.close(folder)
