"""What past sessions did, judged by rules: for `agent policy test` and `suggest`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from agentcli.cli.session_common import here, home
from agentcli.errors import SessionError
from agentcli.events import Action, Event
from agentcli.events.actions import tool_name
from agentcli.events.base import Risk
from agentcli.events.observations import DecisionObservation
from agentcli.files.access_scope import AccessScope
from agentcli.files.tracking import FileTracker
from agentcli.security.policy.policy import Policy
from agentcli.security.policy.rule import Rule
from agentcli.sessions.search.finder import find, session_states
from agentcli.sessions.session import read_session
from agentcli.system.homes import user_home
from agentcli.system.programs import person_environ
from agentcli.tools.base import Effect
from agentcli.tools.collection import TOOLS

Against = Annotated[
    list[str] | None,
    typer.Option(
        "--against",
        "-a",
        help="Sessions: id, unique start, name, or folder; all: those of this folder.",
        metavar="SESSION",
    ),
]


@dataclass(frozen=True)
class Past:
    """An action of a past session that could change something, and what a person said to it."""

    session: str
    workspace: Path
    action: Action
    answer: str

    @property
    def text(self) -> str:
        return str(getattr(self.action, "command", "") or self.action.message)


def policy_of(rules: tuple[Rule, ...], workspace: Path) -> Policy:
    """Nothing but the rules: no sandbox, no rating of risk, no hard blocks."""
    return Policy(
        mode="ask",
        contained=False,
        scope=AccessScope(workspace, user_home(person_environ()), (workspace,)),
        rules=rules,
        effect_of=_effect,
        locate=FileTracker(workspace).locate,
        rate=lambda action: (Risk.UNKNOWN, ""),
        blocked=lambda action: "",
        confirm="never",
    )


def _effect(action: Action) -> str:
    """Of the tool that carries out `action`; of one that is not here any more, the most."""
    tool = TOOLS.get(tool_name(action))
    return tool.effect if tool else Effect.EXECUTE


def past_actions(against: list[str] | None) -> Iterator[Past]:
    for folder in _folders(against or ["all"]):
        try:
            record = read_session(folder)
        except SessionError as error:
            print(f"agent: {folder.name} is left out: {error.message}", file=sys.stderr)
            continue
        workspace = Path(record.state.workspace or here())
        answers = _answers(record.events)
        for event in record.events:
            if _could_change(event):
                yield Past(folder.name, workspace, event, answers.get(event.id, ""))  # type: ignore[arg-type]


def _could_change(event: Event) -> bool:
    """Whether a policy would have looked at it twice: status of jobs and faulty calls aside."""
    if not isinstance(event, Action) or not event.runnable or _effect(event) == "read":
        return False
    return not (getattr(event, "job", None) or getattr(event, "error", None))


def _answers(events: Sequence[Event]) -> dict[int, str]:
    """What a person said to each action that was asked: allow or deny."""
    return {
        event.cause: event.decision
        for event in events
        if isinstance(event, DecisionObservation) and event.by == "user" and event.cause is not None
    }


def _folders(wanted: Sequence[str]) -> Iterator[Path]:
    """Raises UsageError for what is no session."""
    for name in wanted:
        if name == "all":
            yield from (folder for folder, _ in session_states(home(), str(here())))
        elif "/" in name and (Path(name) / "events").is_dir():
            yield Path(name).absolute()
        else:
            yield find(home(), name)
