"""What a user must know about where a session works before anything runs there: that it is the home
folder, the root of the file system, or a folder in no repository."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from agentcli.errors import ConfigError
from agentcli.git.repositories import find_repository
from agentcli.sandbox.selection import NO_LAYER
from agentcli.settings import Settings
from agentcli.workspace.names import display_path

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
