"""A session whose steps are shell commands, without a model or a process of agent, and what git and
a look at the disk say of its workspace."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentcli.app.undo import UndoResult, rewind, undo
from agentcli.checkpoints.checkpointer import checkpoints_of
from agentcli.events import Source
from agentcli.events.actions import MessageAction
from agentcli.events.observations import CheckpointObservation, SessionStartedObservation
from agentcli.sessions.session import SessionLog
from tests.checkpoints.trees import contents

_SETTINGS = {
    "user.name": "t",
    "user.email": "t@t",
    "init.defaultBranch": "main",
    "gc.auto": "0",
    "core.fsync": "none",
    "protocol.file.allow": "always",
    "advice.detachedHead": "false",
    # That of another user too.
    "safe.directory": "*",
}
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_DATE": "2098-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2098-01-01T00:00:00Z",
    "GIT_EDITOR": "true",
    "GIT_CONFIG_COUNT": str(len(_SETTINGS)),
    **{f"GIT_CONFIG_KEY_{n}": name for n, name in enumerate(_SETTINGS)},
    **{f"GIT_CONFIG_VALUE_{n}": value for n, value in enumerate(_SETTINGS.values())},
}


def sh(folder: Path, command: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=ENVIRONMENT, capture_output=True, timeout=60
    )


@dataclass(frozen=True)
class Looks:
    """All that is to be as before. `git` is what it answers, `state` its own files that say what
    is going on; object files, stat facts in the index and how references are stored are not."""

    files: dict[bytes, tuple[int, bytes]]
    git: tuple[tuple[int, bytes], ...]
    state: dict[bytes, tuple[int, bytes]]


_QUESTIONS = (
    "git ls-files -s -t -v",
    "git status --porcelain=v2 --branch --show-stash --untracked-files=all --ignored",
    "git for-each-ref --format='%(refname) %(objectname) %(symref)'",
    "git rev-parse --symbolic-full-name HEAD; git rev-parse HEAD",
    "git stash list",
    'find .git/logs -type f | sort | while read f; do echo "$f"; cat "$f"; done',
    "git worktree list --porcelain",
    "git fsck --full --strict --no-dangling --no-progress",
)
_STATE = (
    *(b"config", b"description", b"info/exclude", b"shallow", b"MERGE_HEAD", b"MERGE_MSG"),
    *(b"CHERRY_PICK_HEAD", b"REVERT_HEAD", b"rebase-merge/onto", b"rebase-merge/done"),
    *(b"index.lock", b"HEAD.lock"),
)


def looks(folder: Path) -> Looks:
    everything = contents(folder) if folder.is_dir() else {}
    files = {p: e for p, e in everything.items() if not _is_in_git(p)}
    state = {p: everything[b".git/" + p] for p in _STATE if b".git/" + p in everything}
    if not (folder / ".git").exists():
        return Looks(files, (), state)
    answers = [sh(folder, f"export GIT_OPTIONAL_LOCKS=0; {asked}") for asked in _QUESTIONS]
    here = os.fsencode(folder)
    said = tuple((a.returncode, a.stdout.replace(here, b"HERE")) for a in answers)
    return Looks(files, said, state)


def _is_in_git(path: bytes) -> bool:
    return b".git" in path.split(b"/")[:-1]


class Walk:
    """A session in `workspace`. `states` has how it looked before each step, and at the end."""

    def __init__(self, home: Path, workspace: Path) -> None:
        self.workspace = workspace
        self.home = home
        (home / "sessions").mkdir(parents=True)
        self.session = SessionLog.create(home / "sessions" / "20260101-000000-abcd")
        started = SessionStartedObservation(
            version="0",
            session_id=self.session.id,
            model="scripted",
            sandbox="none",
            workspace=str(workspace),
            pid=os.getpid(),
            host="here",
        )
        self.session.emit(started)
        self.session.emit(MessageAction(content="go", source=Source.USER))
        self.states: list[Looks] = []

    def __enter__(self) -> Walk:
        return self

    def __exit__(self, *_: object) -> None:
        self.session.close()

    def steps(self, commands: Sequence[str]) -> None:
        """One turn of steps, as the loop keeps them."""
        kept = checkpoints_of(self.session.folder, str(self.workspace))
        for command in commands:
            self.states.append(looks(self.workspace))
            self._record(kept.take().tree, "before_step")
            sh(self.workspace, command)
        self._record(kept.take(thorough=True).tree, "turn_end")

    def undo(self, count: int = 1, *, force: bool = False) -> UndoResult:
        return undo(self.session, count, force=force)

    def rewind(self, event_id: int) -> UndoResult:
        return rewind(self.session, event_id, files=True, conversation=False)

    def _record(self, tree: str, moment: str) -> None:
        self.session.emit(CheckpointObservation(tree=tree, moment=moment))
