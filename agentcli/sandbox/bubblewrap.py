"""The layer "bubblewrap": a view of the file system, namespaces and a filter of system calls.

Everything is read-only except what the scope makes writable. What the scope hides is covered by an
empty file or folder. Only existing places are covered, because bwrap would create missing ones on
the real disk. Mounts are made from the root downwards, so a nested place is mounted after the one
around it. Sockets and named pipes where other programs listen are covered too: a read-only file
system does not keep commands from talking to them."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from agentcli.git.repositories import is_git_folder
from agentcli.sandbox.system_calls import AF_INET, AF_INET6, AF_UNIX, seccomp_program
from agentcli.workspace.opening import hands_down_its_group
from agentcli.workspace.private import write_private
from agentcli.workspace.scope import TMP, AccessScope

_UNIX_SOCKETS = Path("/proc/net/unix")
MOST_SINGLE = 200
"""How many places are covered individually. The time bwrap needs for each grows with the number of
places before it."""
_PROGRAMS_KEEP = ("", ".config", ".local/share", ".local/state")
"""Folders in the home folder where programs keep folders of their own."""
_SYSTEM = tuple(
    map(Path, ("/bin", "/dev", "/etc", "/lib", "/opt", "/proc", "/sys", "/usr", "/var"))
)
_MOST_FOLDERS, _MOST_ENTRIES = 300, 5_000


def listening_places(scope: AccessScope, emptied: Iterable[Path]) -> list[Path]:
    """Return the sockets bound now, and named pipes in the usual places of the home folder.

    Those in the workspace are left out, because its own programs make them, unless it contains the
    whole home folder. So are those in a /tmp of the session's own. If there are too many to cover,
    the fullest folders are returned instead. `emptied` are folders that commands find empty anyway.
    """
    unseen = (*emptied, *scope.mounts)
    shared = (scope.home, TMP)
    of_session = (
        path for path in scope.writable if not any(each.is_relative_to(path) for each in shared)
    )
    known = (*of_session, *scope.hidden, *unseen)
    found = [
        path
        for path in dict.fromkeys((*_sockets(unseen), *_pipes(scope)))
        if not any(map(path.is_relative_to, known)) and _is_in_reach(path)
    ]
    if len(found) <= MOST_SINGLE:
        return found
    return _grouped(found, [scope.home, *scope.writable, *scope.readable, *_SYSTEM])


def _sockets(unseen: Iterable[Path]) -> Iterator[Path]:
    try:
        lines = os.fsdecode(_UNIX_SOCKETS.read_bytes()).split("\n")[1:]
    except OSError:
        return
    prefixes = tuple(f"{path}/" for path in unseen)
    for place in dict.fromkeys(filter(None, map(_place, lines))):
        if place.startswith(prefixes):
            continue
        # What we may not inspect is out of reach for commands as well.
        with suppress(OSError, RuntimeError):
            path = Path(place).resolve()
            if path.is_socket():
                yield path


def _is_in_reach(path: Path) -> bool:
    """Return whether the modes of the folders let commands get there. Outside, root may look
    anywhere, but not from within a sandbox, where bwrap covers the places."""
    if os.geteuid() != 0:
        return True
    groups = {os.getegid(), *os.getgroups()}
    with suppress(OSError):
        for info in map(Path.stat, path.parents):
            by_group = stat.S_IXGRP if info.st_gid in groups else stat.S_IXOTH
            if not info.st_mode & (stat.S_IXUSR if info.st_uid == 0 else by_group):
                return False
        return True
    return False


def _place(line: str) -> str | None:
    """Return the path in a line of the kernel's list. The kernel writes names as their owners chose
    them, even with newlines, so a line may be any text."""
    fields = line.split(None, 7)
    is_path = len(fields) == 8 and fields[7].startswith("/") and "\0" not in fields[7]
    return fields[7] if is_path else None


def _pipes(scope: AccessScope) -> Iterator[Path]:
    """Yield named pipes of the user's programs, in places where programs keep their files. Finding
    all that are open somewhere would take too long."""
    waiting = [(scope.home / name, True) for name in _PROGRAMS_KEEP]
    if TMP in scope.writable:
        waiting.insert(0, (TMP, True))
    folders = entries = 0
    while waiting and folders < _MOST_FOLDERS and entries < _MOST_ENTRIES:
        folder, holds_folders = waiting.pop(0)
        folders += 1
        with suppress(OSError), os.scandir(folder) as found:
            for entry in found:
                entries += 1
                is_folder = entry.is_dir(follow_symlinks=False)
                if is_folder:
                    if holds_folders and (entry.name.startswith(".") or folder != scope.home):
                        waiting.append((Path(entry.path), False))
                elif entry.is_file(follow_symlinks=False):
                    continue
                elif stat.S_ISFIFO(entry.stat(follow_symlinks=False).st_mode):
                    yield Path(entry.path)


def _grouped(places: list[Path], needed: list[Path]) -> list[Path]:
    """Reduce `places` to as many as can be covered: the fullest folders as a whole, unless they
    contain something that is `needed`."""
    by_folder: dict[Path, list[Path]] = {}
    for place in places:
        by_folder.setdefault(place.parent, []).append(place)
    covered: list[Path] = []
    left = len(places)
    for folder in sorted(by_folder, key=lambda folder: -len(by_folder[folder])):
        if left <= MOST_SINGLE or any(path.is_relative_to(folder) for path in needed):
            continue
        left -= len(by_folder.pop(folder)) - 1
        covered.append(folder)
    single = [place for group in by_folder.values() for place in group]
    return [*covered, *single][:MOST_SINGLE]


SECCOMP_FD = 211
EMPTY_FDS = 212
"""Descriptors that bwrap reads; higher than any that are open between fork and exec."""
_EMPTIED = (Path("/run"), Path("/var/run"), Path("/var/tmp"))
_RESOLVER = Path("/etc/resolv.conf")
_NOTHING = Path(os.devnull)
"""Mounted over sockets and pipes of other programs: devices can't be opened there."""
_NAMESPACES = ("--die-with-parent", "--unshare-user", "--unshare-all", "--cap-drop", "ALL")
_ROOT = Path("/")
_OF_THE_KERNEL = ("--dev", "/dev", "--proc", "/proc")
"""Mounted over what the root shows there, whether or not it is writable."""


@dataclass(frozen=True)
class _Mount:
    """With `source` None, an empty folder or file is mounted at `path`."""

    path: Path
    source: Path | None
    writable: bool
    is_folder: bool = True

    @property
    def shows_real(self) -> bool:
        return self.source == self.path


@dataclass(frozen=True)
class Descriptors:
    """The descriptors that bwrap must find open: the filter of system calls, and a number of empty
    files. Calling it, in the child, opens them."""

    seccomp: bytes
    empty_files: int

    def __call__(self) -> None:
        reader, writer = os.pipe()
        os.write(writer, self.seccomp)
        os.close(writer)
        os.dup2(reader, SECCOMP_FD)
        os.close(reader)
        for number in range(EMPTY_FDS, EMPTY_FDS + self.empty_files):
            nothing = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, number)
            os.close(nothing)


def bubblewrap_options(
    program: str,
    scope: AccessScope,
    *,
    network: bool,
    families: Collection[int],
    cwd: str,
    folders: Sequence[Path] = (),
) -> tuple[tuple[str, ...], Descriptors]:
    """Return what to put before a command, and what the child must call before it becomes bwrap.

    `families` are the kinds of sockets that may be made. `folders` are writable too, for the agent
    and the command to communicate. Creates a missing `.git/hooks` or `.git/config`, empty as git
    accepts it, because only what exists can be protected.
    """
    if not scope.sealed:
        for path in scope.protected:
            _make_protectable(path)
        for path in scope.agent_files:
            _make_hideable(path, scope)
    mounts = _view(scope, folders, network=network)
    root = mounts.pop(0) if mounts and mounts[0].path == _ROOT else None
    arguments = ["--ro-bind", "/", "/", *_OF_THE_KERNEL]
    if root is not None and root.writable:
        arguments = ["--bind", "/", "/", *_OF_THE_KERNEL, "--ro-bind", "/sys", "/sys"]
    read_only: list[str] = []
    empty_files = 0
    for mount in mounts:
        place = str(mount.path)
        if mount.source is not None:
            arguments += ["--bind" if mount.writable else "--ro-bind", str(mount.source), place]
        elif mount.is_folder:
            arguments += ["--tmpfs", place]
            read_only += [] if mount.writable else ["--remount-ro", place]
        else:
            arguments += ["--ro-bind-data", str(EMPTY_FDS + empty_files), place]
            empty_files += 1
    share = ("--share-net",) if network else ()
    # Kernel settings in /proc belong to root, which may write them even without capabilities.
    read_only += ["--remount-ro", "/proc"]
    end = ("--seccomp", str(SECCOMP_FD), "--chdir", cwd, "--")
    prefix = (program, *_NAMESPACES, *share, *arguments, *read_only, *end)
    group_bit = any(map(hands_down_its_group, scope.writable))
    calls = seccomp_program(families, shared=True, group_bit=group_bit)
    return prefix, Descriptors(calls, empty_files)


def _view(scope: AccessScope, folders: Sequence[Path], *, network: bool) -> list[_Mount]:
    """Return the mounts, in the order in which they must be made."""
    real = [_Mount(path, path, writable=True) for path in _present(scope.writable)]
    workspace = scope.workspace
    if not any(map(workspace.is_relative_to, scope.writable)):
        # This shows it even if it lies in a folder that is replaced.
        real.append(_Mount(workspace, workspace, writable=False))
    guarded = [path for path in _present(scope.protected) if path.parent.resolve() == path.parent]
    present = _present(scope.hidden)
    emptied = list(_emptied())
    others = {*emptied, *scope.mounts}
    fixed = _between(scope.writable, [*guarded, *present], others)
    real += [_Mount(path, path, writable=True) for path in fixed]
    real += [_Mount(path, path, writable=False) for path in _present(scope.readable)]
    real += [_Mount(path, path, writable=False) for path in _present(scope.user_named)]
    real += [_Mount(path, path, writable=True) for path in folders]
    inside = [path for path in scope.confined_to if any(map(path.is_relative_to, scope.masked))]
    real += [_Mount(path, path, writable=False) for path in inside]
    covered = [_Mount(p, None, writable=False, is_folder=p.is_dir()) for p in scope.masked]
    replaced = [*covered, *(_Mount(path, None, writable=True) for path in emptied)]
    replaced += [_Mount(path, source, writable=True) for path, source in scope.mounts.items()]
    if network and (target := _RESOLVER.resolve()).exists():
        real.append(_Mount(target, target, writable=False))
    shown = {mount.path: mount for mount in [*replaced, *real]}
    for path in _closed(guarded, scope.writable):
        if _shows_real(path, shown):
            shown[path] = _Mount(path, path, writable=False)
    listening = listening_places(scope, _EMPTIED)
    hidden = dict.fromkeys(present) | dict.fromkeys(listening, _NOTHING)
    for path, instead in sorted(hidden.items(), key=lambda item: len(item[0].parts)):
        if path not in shown and _shows_real(path, shown):
            is_folder = path.is_dir()
            source = None if is_folder else instead
            shown[path] = _Mount(path, source, writable=False, is_folder=is_folder)
    if scope.sealed:
        kept = {*folders, *scope.mounts}
        shown |= {
            path: replace(mount, writable=False)
            for path, mount in shown.items()
            if mount.shows_real and path not in kept
        }
    return sorted(shown.values(), key=lambda mount: len(mount.path.parts))


def _between(roots: Iterable[Path], paths: Collection[Path], others: Collection[Path]) -> set[Path]:
    """Return the folders between each of the `roots` and each of the `paths` in it. Mounted onto
    themselves, they can't be moved away and replaced by others. Paths that are hidden by mounts on
    `others` don't count."""
    found = set()
    for root in roots:
        over = [place for place in others if place != root and place.is_relative_to(root)]
        for path in paths:
            if path.is_relative_to(root) and not any(map(path.is_relative_to, over)):
                found |= {p for p in path.parents if p != root and p.is_relative_to(root)}
    return {above for above in found if above.is_dir()}


def _closed(guarded: Iterable[Path], roots: Collection[Path]) -> Iterator[Path]:
    """Yield what must be read-only to protect `guarded`. A symlink can't be covered, and could be
    replaced by one to another place. So its folder is made read-only, and so is its target if
    commands could write there."""
    for path in guarded:
        if not path.is_symlink():
            yield path
            continue
        if path.parent not in roots:
            yield path.parent
        target = Path(os.path.realpath(path))
        if target.exists() and any(
            target != root and target.is_relative_to(root) for root in roots
        ):
            yield target


def _shows_real(path: Path, shown: dict[Path, _Mount]) -> bool:
    """Return whether these mounts leave the real content of `path` visible."""
    nearest = next((shown[parent] for parent in path.parents if parent in shown), None)
    return nearest is None or nearest.shows_real


def _emptied() -> Iterator[Path]:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    for path in (*_EMPTIED, *([Path(runtime)] if runtime else [])):
        if path.is_absolute() and path.is_dir() and not path.is_symlink():
            yield path


def _present(paths: Iterable[Path]) -> list[Path]:
    return [path for path in paths if os.path.lexists(path)]


def _make_protectable(path: Path) -> None:
    if path.name not in ("hooks", "config") or not is_git_folder(path.parent):
        return
    if path.parent.resolve() != path.parent:
        return
    with suppress(OSError):
        if path.name == "hooks":
            path.mkdir(exist_ok=True)
        else:
            # A symlink could lead out of the workspace, to a file that does not exist yet.
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644))


def _make_hideable(path: Path, scope: AccessScope) -> None:
    """Create the agent's settings and state if a command could create them otherwise."""
    if not any(path.is_relative_to(root) for root in scope.writable):
        return
    # Settings of the whole machine must be readable for other users.
    mode = 0o700 if path.is_relative_to(scope.home) else 0o755
    with suppress(OSError):
        if path.suffix:
            path.parent.mkdir(mode=mode, parents=True, exist_ok=True)
            path.touch(mode=stat.S_IRUSR | stat.S_IWUSR)
        else:
            path.mkdir(mode=mode, parents=True, exist_ok=True)


def start_script(
    program: str,
    scope: AccessScope,
    command: Sequence[str],
    env: Mapping[str, str],
    folder: Path,
    bash: str,
) -> Path:
    """Write to `folder` a program that starts `command`, plus its own arguments, in bubblewrap
    (`program`) with a network of its own and this environment. `bash` runs it; the descriptors that
    it inherits stay open. Raises OSError."""
    prefix, descriptors = bubblewrap_options(
        program,
        scope,
        network=False,
        families={AF_UNIX, AF_INET, AF_INET6},
        cwd=str(scope.workspace),
    )
    seccomp = write_private(folder / "seccomp", descriptors.seccomp)
    opened = [f"{SECCOMP_FD}<{shlex.quote(str(seccomp))}"]
    opened += [f"{EMPTY_FDS + number}</dev/null" for number in range(descriptors.empty_files)]
    clean = ["env", "-i", *(f"{name}={value}" for name, value in env.items())]
    lines = [
        f"#!{bash} -p",
        "ulimit -c 0",
        "ulimit -f 1000000",
        f"exec {' '.join(opened)}",
        "cd /",
        f'exec {shlex.join([*clean, *prefix, *command])} "$@"',
    ]
    path = write_private(folder / "start", "\n".join([*lines, ""]).encode())
    path.chmod(0o700)
    return path
