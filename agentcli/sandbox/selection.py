"""The sandbox around a session's commands: how its layer is chosen, what that can't do, and how a
command starts."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from agentcli.errors import ConfigError
from agentcli.sandbox.environment import session_caches
from agentcli.system.programs import find_program
from agentcli.workspace.private import dump_json
from agentcli.workspace.scope import AccessScope

if TYPE_CHECKING:
    from agentcli.sandbox.system_calls import Renames


_WITHOUT_NAMESPACES = (
    "no namespaces can be had here, so there is no /tmp of its own, only $TMPDIR",
    "no network at all, not even 127.0.0.1, unless it is allowed",
    "modes, owners and times of your files elsewhere can be changed",
    "files in /dev/shm can be read",
    "no shared memory, semaphores or queues of System V, and no queues of POSIX",
    "programs can't open terminals of their own, as script and expect do",
)
"""Notes on Landlock by itself."""
_NOTES = {
    "bubblewrap": (
        "sockets that are created while the session runs can be reached, and so can named pipes "
        "outside the usual places of your home folder",
        "a repository that commands create is made harmless only at the end of the turn",
        "a secret file that is created while the session runs is not hidden",
    ),
    "landlock": (
        "changes to .git/hooks and .git/config in the workspace are undone, not prevented",
        "named pipes of other programs can be read",
        "file names, and command lines of other processes, can be listed",
    ),
    "seatbelt": ("a helper program of the system may do what the profile forbids",),
    "none": ("commands run with your rights",),
}


def notes_on(layer: str, *, namespaces: bool = False) -> tuple[str, ...]:
    """Return what a layer on this machine can't do, one line each. `namespaces`: Landlock comes
    with some."""
    if layer != "landlock":
        return _NOTES[layer]
    from agentcli.sandbox.landlock import SCOPES_VERSION, SOCKETS_VERSION, landlock_version

    notes = [*_NOTES[layer], *(() if namespaces else _WITHOUT_NAMESPACES)]
    if landlock_version() < SOCKETS_VERSION:
        notes.append("before Linux 7.1, sockets of daemons that are files (docker) can be reached")
    if landlock_version() < SCOPES_VERSION:
        notes.append("before Linux 6.12, your other processes can be signalled, even the agent")
    return tuple(notes)


BUBBLEWRAP = "bubblewrap"
NO_LAYER = "none"
_LAYERS = ("bubblewrap", "landlock", "seatbelt")
_PROGRAMS = {"bubblewrap": "bwrap", "seatbelt": "sandbox-exec"}
_LOADER_VARIABLES = re.compile(r"LD_\w+|GCONV_PATH|LOCPATH|NLSPATH|GLIBC_TUNABLES|MALLOC_\w+")
_PROBE_LIMIT_S = 10
_CACHE_FILE = "sandbox.json"
_REMEDIES = {
    "bubblewrap": "install it (package bubblewrap) and allow user namespaces",
    "landlock": "it needs Linux 5.13 or newer with Landlock enabled",
    "seatbelt": "it exists only on macOS",
}


@dataclass(frozen=True)
class SpawnOptions:
    """How to start a command. `prefix` goes before the command, `preexec` is called in the child
    before it starts, `environment` overrides the command's, and `cwd` is where to start it.
    `sets_variables`: the prefix's program runs outside the sandbox that it makes, and accepts
    `--setenv NAME VALUE`. `reaper`: the command needs a reaper, so that all it starts ends with
    it."""

    cwd: str
    prefix: tuple[str, ...] = ()
    preexec: Callable[[], None] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    sets_variables: bool = False
    reaper: bool = False

    def launch(
        self, command: Sequence[str], env: Mapping[str, str]
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the whole command line that starts `command`, and the environment for it.
        Variables of the system's loader are set for the command alone, because the prefix must not
        load what may come from the workspace."""
        whole = {**env, **self.environment}
        if not self.sets_variables:
            return (*self.prefix, *command), whole
        program, *options = self.prefix
        inner = {name: whole.pop(name) for name in list(whole) if _LOADER_VARIABLES.fullmatch(name)}
        setting = (word for item in inner.items() for word in ("--setenv", *item))
        return (program, *setting, *options, *command), whole

    def run(
        self, command: Sequence[str], env: Mapping[str, str], limit_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a command whose streams are no terminal. Raises OSError, SubprocessError."""
        return subprocess.run(
            [*self.prefix, *command],
            preexec_fn=self.preexec,
            close_fds=False,
            cwd=self.cwd,
            env={**env, **self.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s,
        )


@dataclass(frozen=True)
class Sandbox:
    """A sandbox for commands. `layer` is bubblewrap, landlock, seatbelt or none; `notes` say what
    it can't do, one line each.

    `once`: it is for one command, whose processes end with it; if contained, that can't make
    Unix sockets, which could pass descriptors to other processes. `new_privileges`: programs may
    gain rights, as sudo does, because a user allowed the command to run with full rights.
    `namespaces`: Landlock comes with some. `host_ports`: ports of the machine's loopback that
    commands reach on their own loopback, if they have one. `renames`: who is asked when commands
    replace a file that only bubblewrap protects.
    """

    layer: str
    scope: AccessScope
    network: bool = False
    notes: tuple[str, ...] = ()
    program: str = ""
    once: bool = False
    new_privileges: bool = False
    host_ports: tuple[int, ...] = ()
    namespaces: bool = False
    renames: Renames | None = field(default=None, compare=False)

    @property
    def own_loopback(self) -> bool:
        """Whether 127.0.0.1 is the sandbox's own, not the machine's."""
        return self.own_network and not self.network

    @property
    def own_network(self) -> bool:
        """Whether commands have their own network unless they are given the machine's."""
        return self.layer == BUBBLEWRAP or self.namespaces

    @property
    def session_tmp(self) -> bool:
        """Whether commands see the session's folder at /tmp. A right once given by Landlock can't
        be taken back further below, so nothing else that can be written may lie there."""
        around = {parent for path in self.scope.writable for parent in path.parents}
        is_free = around.isdisjoint(self.scope.mounts)
        return self.layer == BUBBLEWRAP or (self.namespaces and is_free)

    @property
    def contains(self) -> bool:
        return self.layer != NO_LAYER

    @property
    def out_of_reach(self) -> tuple[Path, ...]:
        """Writable folders that commands can't write to after all: those of another user, if root
        runs the agent. In a sandbox, root has none of its powers."""
        if not self.contains or os.getuid() != 0:
            return ()
        return tuple(path for path in self.scope.writable if not _open_to_root(path))

    def wider(self, *, network: bool, unsandboxed: bool) -> Sandbox:
        """Return the sandbox for one command that was allowed more; never narrower than this."""
        if unsandboxed or not self.contains:
            return replace(_none(self.scope), once=unsandboxed, new_privileges=unsandboxed)
        more = network and not self.network
        return replace(self, network=self.network or network, once=self.once or more)

    def spawn_options(self, cwd: str, folders: Sequence[Path] = ()) -> SpawnOptions:
        """Return how to start a command. `folders` are writable too, for its input and its reports.
        Raises OSError for what the layer can't prepare."""
        # Imported with the first command, which makes listing sessions start 13 ms sooner.
        from agentcli.sandbox.system_calls import limits_installer

        limit = limits_installer(new_privileges=self.new_privileges)
        if not self.contains:
            return SpawnOptions(cwd, preexec=limit, reaper=self.once)
        from agentcli.sandbox.bubblewrap import bubblewrap_options
        from agentcli.sandbox.landlock import scope_installer
        from agentcli.sandbox.seatbelt import seatbelt_profile
        from agentcli.sandbox.system_calls import AF_INET, AF_INET6, AF_UNIX

        # In a network namespace of its own, internet sockets lead nowhere.
        internet = {AF_INET, AF_INET6} if self.network or self.own_network else set()
        families = internet if self.once else {AF_UNIX, *internet}
        place, source = next(iter(self.scope.mounts.items()))
        tmp = str(place if self.session_tmp else source)
        environment = session_caches(tmp, source, self.scope.home)
        if self.layer == BUBBLEWRAP:
            prefix, descriptors = bubblewrap_options(
                self.program,
                self.scope,
                network=self.network,
                families=families,
                cwd=cwd,
                folders=folders,
            )
            # Sharing the machine's network also means sharing its abstract sockets.
            scopes = scope_installer() if self.network else None
            ask = self.renames.installer() if self.renames is not None else None
            steps = [limit, scopes, ask, descriptors]
            return SpawnOptions("/", prefix, _all(steps), environment, sets_variables=True)
        if self.layer == "landlock":
            steps = [limit, *self._restrictions(families, cwd, folders)]
            return SpawnOptions(cwd, (), _all(steps), environment, reaper=True)
        profile = seatbelt_profile(self.scope, network=self.network, folders=folders)
        return SpawnOptions(cwd, (self.program, "-p", profile), limit, environment)

    def _restrictions(
        self, families: Collection[int], cwd: str, folders: Sequence[Path]
    ) -> Iterator[Callable[[], None]]:
        from agentcli.sandbox.landlock import (
            landlock_installer,
            namespaces_installer,
            writable_places,
        )

        scope, network = self.scope, self.network
        if self.namespaces:
            shown = (scope.workspace, *scope.readable, *scope.user_named)
            writable = writable_places(scope, folders)
            mounts = scope.mounts if self.session_tmp else {}
            yield namespaces_installer(writable, shown, mounts, network=network, cwd=cwd)
        yield landlock_installer(
            scope,
            network=network,
            families=families,
            folders=folders,
            namespaces=self.namespaces,
        )

    def real_path(self, path: str) -> Path:
        """Return where a path in the commands' view really is."""
        return self.view.real_path(Path(path))

    @property
    def view(self) -> AccessScope:
        """The scope for resolving paths that commands name; only with mounts of their own do they
        see folders in other places."""
        if self.session_tmp:
            return self.scope
        if not self.contains:
            return replace(self.scope, mounts={})
        tmp = tuple(self.scope.mounts.values())
        return replace(
            self.scope,
            mounts={},
            writable=(*self.scope.writable, *tmp),
            readable=(*self.scope.readable, *tmp),
        )


def choose_sandbox(layer: str, scope: AccessScope, *, network: bool, cache: Path) -> Sandbox:
    """Choose the sandbox. `auto` takes the strongest layer that works here, or in the end "none",
    whose notes say why. What worked is cached in the folder `cache` until the machine restarts or
    something relevant changes. Raises ConfigError if a named layer does not work."""
    if layer == NO_LAYER:
        return _none(scope)
    reasons: list[str] = []
    for name in _LAYERS if layer == "auto" else (layer,):
        program = (find_program(_PROGRAMS[name]) or "") if name in _PROGRAMS else ""
        sandbox = Sandbox(name, scope, network, program=program)
        reason = unavailable_reason(sandbox, cache)
        if not reason:
            if name == "landlock":
                sandbox = replace(sandbox, namespaces=_has_namespaces(sandbox, cache))
            notes = notes_on(name, namespaces=sandbox.namespaces)
            return replace(sandbox, notes=(*notes, *reasons))
        reasons.append(f"{name} is stronger but does not work here: {reason}")
        if layer != "auto":
            hint = f"{_REMEDIES[name]}; agent doctor tells more; "
            hint += "--no-sandbox runs commands with your rights"
            raise ConfigError(f"the sandbox {name} does not work here: {reason}", hint=hint)
    notes = tuple(reason.replace(" is stronger but", "") for reason in reasons)
    return replace(_none(scope), notes=(*notes_on(NO_LAYER), *notes))


def unavailable_reason(sandbox: Sandbox, cache: Path) -> str:
    """Return in one line why the layer does not work here; "" if it does."""
    from agentcli.sandbox.landlock import landlock_version
    from agentcli.sandbox.system_calls import seccomp_known

    is_mac = sys.platform == "darwin"
    if (sandbox.layer == "seatbelt") is not is_mac:
        return "it is for macOS" if sandbox.layer == "seatbelt" else "it is for Linux"
    if not is_mac and not seccomp_known():
        return f"there is no system call filter for {os.uname().machine}"
    if sandbox.layer == "landlock" and not landlock_version():
        return "the kernel has no Landlock"
    if sandbox.layer != "landlock" and not sandbox.program:
        return f"{_PROGRAMS[sandbox.layer]} is not installed"
    fingerprint = _fingerprint(sandbox)
    if _remembered(cache).get(sandbox.layer) == fingerprint:
        return ""
    # bwrap fails if a place to cover vanishes at that moment, so try up to three times.
    reason = _try(sandbox) and _try(sandbox) and _try(sandbox)
    if not reason:
        _remember(cache, sandbox.layer, fingerprint)
    return reason


def _has_namespaces(sandbox: Sandbox, cache: Path) -> bool:
    """Return whether Landlock can be put into namespaces here; both answers are remembered."""
    fingerprint = _fingerprint(sandbox)
    answers = {f"{answer} {fingerprint}": answer for answer in (True, False)}
    known = answers.get(_remembered(cache).get("namespaces", ""))
    if known is None:
        known = not _try(replace(sandbox, namespaces=True))
        _remember(cache, "namespaces", f"{known} {fingerprint}")
    return known


def _open_to_root(path: Path) -> bool:
    """Return whether root can write there without its capabilities."""
    try:
        info = path.stat()
    except OSError:
        return True
    by_group = info.st_gid == os.getgid() and info.st_mode & stat.S_IWGRP
    return bool(info.st_uid == 0 or by_group or info.st_mode & stat.S_IWOTH)


def _none(scope: AccessScope) -> Sandbox:
    return Sandbox(NO_LAYER, scope, network=True, notes=notes_on(NO_LAYER))


def _all(steps: Sequence[Callable[[], None] | None]) -> Callable[[], None]:
    def run() -> None:
        for step in steps:
            if step is not None:
                step()

    return run


def _try(sandbox: Sandbox) -> str:
    """Run a program in the sandbox; return in one line why that failed, or "". A temporary folder
    stands in for the session's, which may not exist yet."""
    place = next(iter(sandbox.scope.mounts))
    try:
        with TemporaryDirectory(prefix="agent-sandbox-") as tmp:
            scope = replace(sandbox.scope, mounts={place: Path(tmp)}, readable=())
            options = replace(sandbox, scope=scope).spawn_options("/")
            done = options.run(["/bin/sh", "-c", ":"], os.environ, _PROBE_LIMIT_S)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    said = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
    return "" if done.returncode == 0 else said[-1]


def _fingerprint(sandbox: Sandbox) -> str:
    """Return a text that changes with the boot, kernel, user, program, and container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        program = Path(sandbox.program).stat() if sandbox.program else None
        # Several containers may share the home as a volume. They differ in the places covered in
        # /proc, and in the filters of system calls.
        mounts, status = (Path("/proc/self", name).read_text() for name in ("mountinfo", "status"))
    except OSError:
        return ""
    version = (program.st_mtime_ns, program.st_size) if program else ()
    covered = re.findall(r"^(?:\S+ ){4}(/proc/\S+)", mounts, re.M)
    filters = re.findall(r"^Seccomp\w*:\s*\d+", status, re.M)
    allowed = (*covered, *filters)
    return repr((boot, os.uname().release, os.getuid(), sandbox.program, version, allowed))


def _remembered(cache: Path) -> dict[str, str]:
    try:
        found = json.loads((cache / _CACHE_FILE).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _remember(cache: Path, layer: str, fingerprint: str) -> None:
    """If this can't be written, the next start merely takes longer."""
    known = {**_remembered(cache), layer: fingerprint}
    with suppress(OSError):
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        dump_json(cache / _CACHE_FILE, known, shared=True)
