"""Derives a session's access scope from its workspace and the user's environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from agentcli.git.named_places import named_places
from agentcli.git.repositories import (
    Repository,
    find_repository,
    is_git_folder,
    nested_repositories,
    repository_at,
)
from agentcli.sandbox.secret_places import secret_places
from agentcli.sandbox.shown_places import masked_places, shown_places
from agentcli.system import programs
from agentcli.system.homes import user_home
from agentcli.workspace.access_scope import TMP, AccessScope

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
    named = named_places(top, settings, environ, roots)
    ours = _resolved(agent_files)
    confined_to = shown_places(home, environ, workspace) if confined else ()
    return AccessScope(
        workspace=workspace,
        home=home,
        writable=_without_nested(roots),
        protected=_protected(workspace, roots, repositories, named.protected),
        git_folders=git_folders,
        hidden=(*ours, *_secrets(home, environ, workspace, roots)),
        readable=_resolved((*readable, *_programs_in_tmp(environ, TMP))),
        confined_to=confined_to,
        masked=masked_places(confined_to, home) if confined else (),
        agent_files=ours,
        # If /tmp itself is writable, the session's folder keeps its own path.
        mounts={tmp.resolve() if TMP in roots else TMP: tmp.resolve()},
        problems=tuple(named.problems),
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
    for place in (*secret_places(str(home), environ, str(workspace)), *_real(places)):
        if str(place) not in around:
            yield place


def _real(places: Iterable[Path]) -> Iterator[Path]:
    for place in places:
        with suppress(OSError, RuntimeError):
            yield place.resolve()


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
