"""What contains a session, built from its settings: access scope, sandbox, and what the user must
know about the workspace."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.agent.prompts import SandboxFacts
from agentcli.app.configuration.places import (
    MANAGED_FILE,
    keys_file,
    rules_file,
    skill_folders,
    user_file,
)
from agentcli.errors import ConfigError, SessionError, os_error_text
from agentcli.git.repositories import find_repository
from agentcli.sandbox.environment import command_environment
from agentcli.sandbox.scope_finder import find_access_scope
from agentcli.sandbox.selection import BUBBLEWRAP, NO_LAYER, Sandbox, choose_sandbox
from agentcli.security.policy.rule import host_ports
from agentcli.sessions.library import library_of
from agentcli.settings import Settings
from agentcli.system import programs
from agentcli.system.homes import expanded, user_home
from agentcli.workspace.names import display_path
from agentcli.workspace.scope import TMP, AccessScope

NameFolders = Callable[[Path, Path], Sequence[str]]
"""Asks the user which folders may be written to, given a workspace that is or holds the home
folder, and the home folder."""


def holds_too_much(workspace: Path, home: Path) -> bool:
    """Whether the workspace is the home folder or holds it: then only what the user names in it can
    be written to. Both paths must be resolved."""
    return home.is_relative_to(workspace)


def only_named(settings: Settings, workspace: Path, home: Path) -> bool:
    """Whether only what the user named in `workspace` may be written. With neither sandbox nor
    questions the user has agreed to everything; in plan mode nothing is written anyway."""
    unheld = settings.sandbox.layer == NO_LAYER and settings.agent.approval == "yolo"
    usual = unheld or settings.agent.planning
    return not usual and holds_too_much(workspace, home)


def with_named_folders(
    settings: Settings,
    workspace: Path,
    home: Path,
    before: Sequence[str] | None,
    ask: NameFolders | None,
) -> Settings:
    """Return the settings with the folders that the user named for one session, if nothing else in
    the workspace may be written: those from `before`, when it was left, or else those that `ask`
    returns."""
    if settings.sandbox.writable or not only_named(settings, workspace, home):
        return settings
    named = before
    if named is None and ask is not None:
        named = ask(workspace, home)
    return settings.changed(sandbox={"writable": list(named or ())})


def require_named_folders(settings: Settings, workspace: Path, home: Path) -> None:
    """Raise ConfigError if a session could write to nothing and nobody can be asked."""
    if only_named(settings, workspace, home) and not settings.sandbox.writable:
        raise ConfigError(
            f"{what_it_is(workspace, home)}: nothing in it can be changed until you name folders",
            hint=f"name them: --add-dir DIR, or --add-dir {display_path(workspace)} for all of it; "
            "to read only: --approval plan",
        )


def workspace_warnings(
    settings: Settings, workspace: Path, home: Path, writable: Sequence[Path]
) -> Iterator[str]:
    """Yield what the user must know about `workspace`: one sentence, or none."""
    if holds_too_much(workspace, home):
        yield f"{what_it_is(workspace, home)}: {_extent(settings, workspace, home, writable)}"
    elif find_repository(workspace) is None:
        kept = settings.agent.checkpoints and not settings.agent.planning
        undone = "; agent undo takes back what a session does to its files" if kept else ""
        yield f"{display_path(workspace)} is not in a git repository{undone}"


def what_it_is(workspace: Path, home: Path) -> str:
    """Return the beginning of a sentence about a folder that holds too much."""
    place = display_path(workspace)
    if workspace == home != Path("/"):
        return f"{place} is your home folder"
    if workspace == Path("/"):
        return "/ is the root of the file system"
    return f"{place} holds your home folder"


def _extent(settings: Settings, workspace: Path, home: Path, writable: Sequence[Path]) -> str:
    if settings.agent.planning:
        return "nothing in it is changed in plan mode"
    if not only_named(settings, workspace, home):
        return "commands can change everything in it, as there is no sandbox"
    if not writable:
        return "nothing in it can be changed, as you named no folder (--add-dir DIR)"
    if workspace in writable:
        return "all of it can be changed, as you named it"
    return f"only what you named can be changed: {', '.join(map(display_path, writable))}"


if TYPE_CHECKING:
    from agentcli.sandbox.loopback import OpenPort

OUTPUTS = "outputs"
TMP_FOLDER = "tmp"
CHECK_FOLDER = "check"


@dataclass(frozen=True)
class Containment:
    """What contains one session, whose folder need not exist yet. `keys` are variables that no
    command may see. `attended`: a user can be asked."""

    settings: Settings
    environ: Mapping[str, str]
    workspace: Path
    agent_home: Path
    """The agent's state: sessions and what it remembers."""
    session_folder: Path
    keys: Collection[str]
    attended: bool
    tmp: Path | None = None
    """What its commands see as /tmp, if that is not a folder of its own."""
    lent: Sequence[Path] = ()
    """Places outside the workspace that links in it lead to; they may be read."""

    @cached_property
    def scope(self) -> AccessScope:
        """What the session may access. Raises ConfigError if a folder to write to does not exist,
        or is one of the agent's own."""
        kept_in = library_of(self.agent_home).places
        places = [self.agent_home, *_settings_places(self.environ), *kept_in]
        writable = [_folder(name) for name in self.settings.sandbox.writable]
        writable += [TMP] if self.settings.sandbox.share_tmp else []
        for folder in (self.workspace, *writable):
            _require_not_own(folder, places)
            _require_outside(kept_in, folder)
        scope = find_access_scope(
            self.workspace,
            self.environ,
            writable=writable,
            agent_files=[*places, *_led_to(places, self.workspace)],
            readable=[
                self.session_folder / OUTPUTS,
                *self.lent,
                *_skills(skill_folders(self.settings.knowledge, self.environ)),
            ],
            tmp=self.tmp or self.session_folder / TMP_FOLDER,
            confined=self.settings.sandbox.read == "workspace",
            only_named=only_named(self.settings, self.workspace, user_home(self.environ)),
        )
        return replace(scope, sealed=self.settings.agent.planning)

    @cached_property
    def sandbox(self) -> Sandbox:
        """The sandbox for commands. Raises ConfigError if none works and one is required."""
        wanted = self.settings.sandbox
        chosen = choose_sandbox(
            wanted.layer, self.scope, network=wanted.network, cache=self.agent_home
        )
        security = self.settings.security
        chosen = replace(chosen, host_ports=host_ports(security.allow, security.deny))
        if chosen.contains or self.attended or wanted.layer == NO_LAYER:
            return chosen
        raise ConfigError(
            "no sandbox works here, and nobody can be asked before commands run",
            hint="install bubblewrap (agent doctor says what is missing), or let commands run with "
            "all your rights: --no-sandbox --yolo",
        )

    @property
    def sealed(self) -> bool:
        """Whether a sandbox keeps commands from writing to the workspace, as in plan mode."""
        return self.sandbox.contains and self.scope.sealed

    def require_named_folders(self) -> None:
        """Raise ConfigError if nothing could be written and nobody can be asked for more."""
        if not self.attended:
            require_named_folders(self.settings, self.scope.workspace, self.scope.home)

    def notices(self) -> Iterator[str]:
        """Yield what the user must know about the containment before anything runs."""
        scope = self.scope
        yield from workspace_warnings(self.settings, scope.workspace, scope.home, scope.writable)
        if TMP in scope.writable and not scope.sealed:
            yield "/tmp is shared with this session: commands can change your files there"
        yield from scope.problems
        for path in () if scope.sealed else self.sandbox.out_of_reach:
            yield (
                f"{path} belongs to another user, and commands in the sandbox have none of root's "
                "powers: they can't write there. Run agent as that user, or with --no-sandbox"
            )
        sandbox = self.sandbox
        alone = sandbox.layer == "landlock" and not (sandbox.own_network or sandbox.network)
        if alone and sandbox.host_ports:
            yield (
                "the rules for ports of this machine take no effect: under Landlock without "
                "namespaces commands have no network at all, and bubblewrap does not work here"
            )
        if exposed := self._exposed():
            yield exposed

    @property
    def reached_ports(self) -> tuple[int, ...]:
        """Ports of the machine that commands reach on a loopback of their own."""
        return self.sandbox.host_ports if self.sandbox.own_loopback else ()

    def _exposed(self) -> str:
        """Return what commands can change of the agent itself, in words; else empty."""
        sandbox = self.sandbox
        inside, whole = programs.installed_in(self.scope.writable)
        places = whole + (inside if sandbox.layer == "landlock" else [])
        loads = sorted(
            name
            for name in programs.sanitize_environment(self.environ, programs.distrusted()).left_out
            if name in programs.LOADED_AT_START
        )
        if not sandbox.contains or not (places or loads):
            return ""
        what = ", ".join([*places, *loads])
        return (
            f"commands can change what agent itself loads, and no sandbox here prevents it: {what}"
        )

    @cached_property
    def environment(self) -> dict[str, str]:
        """The environment of the session's commands."""
        if not self.sandbox.contains:
            return self.full_environment.environ
        return self._usual(contained=True)

    @cached_property
    def full_environment(self) -> programs.SanitizedEnvironment:
        """The environment of commands outside all sandboxes: nothing in it leads to places that
        commands in a sandbox can write to."""
        return programs.sanitize_environment(self._usual(contained=False), programs.distrusted())

    def _usual(self, *, contained: bool) -> dict[str, str]:
        extra = self.settings.sandbox.environment
        name = self.session_folder.name
        found = command_environment(self.environ, self.keys, name, contained=contained, extra=extra)
        # In plan mode git must not write on the side.
        return found | ({"GIT_OPTIONAL_LOCKS": "0"} if self.settings.agent.planning else {})

    def facts(self) -> SandboxFacts | None:
        """Return what the model is told about the sandbox; None without one."""
        sandbox, view = self.sandbox, self.sandbox.view
        if not sandbox.contains:
            return None
        is_closed = sandbox.layer == BUBBLEWRAP
        return SandboxFacts(
            layer=sandbox.layer,
            network=sandbox.network,
            loopback=sandbox.own_network,
            host_ports=self.reached_ports,
            writable=() if view.sealed else tuple(map(str, self.scope.writable)),
            protected=tuple(_protected(view)) if is_closed and not view.sealed else (),
            private_tmp=not view.sealed and TMP in view.mounts,
            confined=bool(self.scope.confined_to),
            sealed=view.sealed,
        )


def with_readable(sandbox: Sandbox, folders: Iterable[Path]) -> Sandbox:
    """Return the sandbox with `folders` readable, which commands don't see otherwise."""
    scope = sandbox.scope
    return replace(sandbox, scope=replace(scope, readable=(*scope.readable, *folders)))


def _settings_places(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the places from which settings and saved rules are read."""
    user = user_file(environ)
    yield MANAGED_FILE.parent
    if environ.get("AGENT_CONFIG"):
        # The folder of a file that the user named may hold anything, and even be the workspace.
        yield from (user, rules_file(environ), keys_file(environ))
    else:
        yield user.parent


def _require_not_own(folder: Path, places: Sequence[Path]) -> None:
    """Raise ConfigError if `folder`, which commands may write to, lies in one of `places`, which
    hold the agent's settings and state."""
    for place in map(Path.resolve, places):
        if folder.resolve().is_relative_to(place):
            raise ConfigError(
                f"{folder} holds the agent's own settings or sessions, which commands must not "
                "change",
                hint="work on a copy elsewhere: -C DIR",
            )


def _require_outside(kept_in: Sequence[Path], folder: Path) -> None:
    """Raise ConfigError if sessions are kept in `folder`, which commands may write to."""
    for path in kept_in:
        if path.resolve().is_relative_to(folder.resolve()):
            raise ConfigError(
                f"sessions are kept in {path}, where commands of this one could change them",
                hint="set sessions.store to a file elsewhere; a relative path is one in AGENT_HOME",
            )


def _led_to(places: Sequence[Path], workspace: Path) -> Iterator[Path]:
    """Yield where links in these folders lead: a user may keep settings or sessions elsewhere."""
    for place in places:
        try:
            with os.scandir(place) as entries:
                links = [Path(entry.path).resolve() for entry in entries if entry.is_symlink()]
        except OSError:
            continue
        yield from (link for link in links if not workspace.is_relative_to(link))


def _skills(folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the user's own skill folders, which may be secret otherwise: they can be read, and
    their scripts be run, in place. Links are left out, so that none can show what is hidden."""
    return (folder for folder in folders if folder.is_dir() and not folder.is_symlink())


def _protected(scope: AccessScope) -> Iterator[str]:
    """Sum up what is protected: a repository with submodules has hundreds of such files."""
    if scope.git_folders:
        yield "git's hooks and settings that run programs"
    for path in scope.protected:
        if path.name != ".git" and not any(map(path.is_relative_to, scope.git_folders)):
            inside = path.is_relative_to(scope.workspace)
            yield str(path.relative_to(scope.workspace) if inside else path)


def _folder(name: str) -> Path:
    """Return the folder as a path. Raises ConfigError if there is no such folder."""
    path = expanded(name).absolute()
    if not path.is_dir():
        raise ConfigError(f"there is no folder {name} to write to", hint="see --add-dir")
    return path


ITS_PAGES = "its pages run in your browser, which has your network"
"""Always said along with it, because commands have no network."""


def open_port(agent_pid: int, port: int) -> OpenPort | None:
    """Make what listens on `port` in a sandbox of the agent `agent_pid` reachable until that is
    closed; None if it is reachable already, as it has no network of its own. Raises SessionError if
    nothing listens there."""
    from agentcli.sandbox.loopback import OpenPort, has_own_network, listening_process

    process = listening_process(agent_pid, port)
    if process is None:
        raise SessionError(
            f"nothing that the session has started listens on 127.0.0.1:{port}",
            hint="ask the agent to start the server in the background and to name its port",
        )
    if not has_own_network(process):
        return None
    try:
        return OpenPort(process, port)
    except OSError as error:
        raise SessionError(f"port {port} can't be opened: {os_error_text(error)}") from error
