"""Actions of past sessions, to be judged by rules: for `agent policy test` and `suggest`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated

from agentcli.cli.options import option
from agentcli.cli.user_paths import here, home
from agentcli.errors import SessionError
from agentcli.events import Action, Event
from agentcli.events.actions import CmdRunAction, tool_name
from agentcli.events.base import Risk
from agentcli.events.observations import DecisionObservation, SessionStartedObservation
from agentcli.security.policy.policy import Policy
from agentcli.security.policy.rule import Rule
from agentcli.security.risk_rating import rate_by_rules
from agentcli.sessions.finder import find, session_states
from agentcli.sessions.session import read_session
from agentcli.system.homes import user_home
from agentcli.system.programs import user_environ
from agentcli.tools.base import Effect
from agentcli.tools.registry import TOOLS
from agentcli.ui.text import say_note
from agentcli.workspace.scope import AccessScope
from agentcli.workspace.tracking import FileTracker

Against = Annotated[
    list[str] | None,
    option(
        "--against, -a SESSION",
        "Sessions: id, unique start, name, or folder; all: those of this folder.",
    ),
]


@dataclass(frozen=True)
class PastAction:
    """An action of a past session that could change something, with the user's decision. `answer`
    is allow or deny, "" if nobody was asked; `grant` is the rule that the user gave with it.
    `risk` is what the question said. `left_sandbox`: it ran outside the session's sandbox."""

    session: str
    workspace: Path
    action: Action
    answer: str
    grant: str = ""
    risk: Risk = Risk.UNKNOWN
    left_sandbox: bool = False

    @property
    def text(self) -> str:
        return str(getattr(self.action, "command", "") or self.action.message)

    @cached_property
    def is_of_high_risk(self) -> bool:
        """Whether it is of high risk, according to the question or to today's rules; such actions
        can't get a lasting rule."""
        scope = policy_of((), self.workspace).scope
        return (
            max(self.risk, rate_by_rules(self.action, scope, str(self.workspace))[0]) >= Risk.HIGH
        )


def policy_of(rules: tuple[Rule, ...], workspace: Path, *, contained: bool = False) -> Policy:
    """Return a policy of nothing but `rules`: no risk ratings, no hard blocks, and no sandbox
    unless `contained`."""
    return Policy(
        mode="ask",
        contained=contained,
        scope=AccessScope(workspace, user_home(user_environ()), (workspace,)),
        rules=rules,
        effect_of=_effect,
        locate=FileTracker(workspace).locate,
        rate=lambda action: (Risk.UNKNOWN, ""),
        blocked=lambda action: "",
        confirm="never",
    )


def _effect(action: Action) -> str:
    return _effect_of_tool(tool_name(action))


@cache
def _effect_of_tool(name: str) -> str:
    """Return the effect of a tool; for one that no longer exists, the strongest. Cached, because
    looking for a tool lists the folder of tools."""
    tool = TOOLS.all().get(name)
    return tool.effect if tool else Effect.EXECUTE


def past_actions(against: list[str] | None) -> Iterator[PastAction]:
    for folder in _folders(against or ["all"]):
        try:
            record = read_session(folder)
        except SessionError as error:
            say_note(f"{folder.name} is skipped: {error.message}")
            continue
        workspace = Path(record.state.workspace or here())
        yield from _of_session(folder.name, workspace, record.events)


def _of_session(name: str, workspace: Path, events: Sequence[Event]) -> Iterator[PastAction]:
    asked, answers = _decisions(events, "policy"), _decisions(events, "user")
    sandboxed = False
    for event in events:
        if isinstance(event, SessionStartedObservation):
            sandboxed = event.sandbox not in ("", "none")
        if not isinstance(event, Action) or not _could_change(event):
            continue
        question, answer = asked.get(event.id), answers.get(event.id)
        yield PastAction(
            session=name,
            workspace=workspace,
            action=event,
            answer=answer.decision if answer else "",
            grant=(answer.grant or "") if answer else "",
            risk=question.risk if question else Risk.UNKNOWN,
            left_sandbox=sandboxed and isinstance(event, CmdRunAction) and event.unsandboxed,
        )


def _could_change(event: Action) -> bool:
    """Return whether a policy would have examined the action: no job status, no faulty call."""
    if not event.runnable or _effect(event) == "read":
        return False
    return not (getattr(event, "job", None) or getattr(event, "error", None))


def _decisions(events: Sequence[Event], by: str) -> dict[int, DecisionObservation]:
    """Return the last decision `by` the user or the policy about each action."""
    return {
        event.cause: event
        for event in events
        if isinstance(event, DecisionObservation) and event.by == by and event.cause is not None
    }


def _folders(wanted: Sequence[str]) -> Iterator[Path]:
    """Yield the folders of the sessions. Raises UsageError for what is no session."""
    for name in wanted:
        if name == "all":
            yield from (folder for folder, _ in session_states(home(), str(here())))
        elif "/" in name and (Path(name) / "events").is_dir():
            yield Path(name).absolute()
        else:
            yield find(home(), name)
