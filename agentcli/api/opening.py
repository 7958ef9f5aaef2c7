"""Opens a session by the options of a program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from agentcli.api.function_tools import as_tools
from agentcli.api.options import Respond, SessionOptions
from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.agents import ApproverFactory
from agentcli.app.builders import NOBODY, UserQuestions, load_builder
from agentcli.app.configuration.config import dotted
from agentcli.app.configuration.places import resolve_workspace
from agentcli.app.configuration.store import use_configured_store
from agentcli.app.open_session import OpenSession
from agentcli.app.requirements import RequirementSpec, requirement_spec
from agentcli.app.resume import workspace_of
from agentcli.errors import UsageError
from agentcli.events import Action, Event, Observation, Progress, Risk, event_from_dict
from agentcli.events.actions import MessageAction
from agentcli.events.observations import DecisionObservation
from agentcli.events.progress import Approval, Notice
from agentcli.sessions.finder import find, free_name
from agentcli.sessions.session import SessionLog, Subscriber
from agentcli.settings import Settings
from agentcli.system.homes import state_home
from agentcli.system.programs import user_environ


def earlier_conversation(given: Sequence[Event | Mapping[str, Any]]) -> list[Event]:
    """Return the messages, and the tool calls with their observations; everything else belongs to
    the session that it comes from. Raises UsageError for what is no event, and for a call without
    its observation."""
    return list(_kept([_event(each, at) for at, each in enumerate(given)]))


def record_earlier(session: SessionLog, kept: Sequence[Event]) -> None:
    """Record what `earlier_conversation` returned, without its costs, which were paid before."""
    new_ids = {event.id: id for id, event in enumerate(kept, len(session.events))}
    totals = Counter(event.reply.id for event in kept if event.reply is not None)
    seen: Counter[str] = Counter()
    recorded = []
    for event in kept:
        cause = None if event.cause is None else new_ids[event.cause]
        reply = event.reply
        if reply is not None:
            place = {"index": seen[reply.id], "total": totals[reply.id]}
            seen[reply.id] += 1
            reply = reply.model_copy(update=place)
        changes = {"cause": cause, "reply": reply, "llm_metrics": None}
        recorded.append(event.model_copy(update=changes))
    if recorded:
        session.emit_group(recorded)


def _event(given: Event | Mapping[str, Any], at: int) -> Event:
    if isinstance(given, Event):
        return given
    try:
        return event_from_dict(given)
    except (ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"initial_events[{at}] is no event: {error}") from error


def _kept(events: Sequence[Event]) -> Iterator[Event]:
    answered = {e.cause for e in events if _is_answer(e)}
    calls = set()
    for at, event in enumerate(events):
        if isinstance(event, MessageAction):
            yield event
        elif isinstance(event, Action) and event.tool_call_metadata is not None:
            if event.id < 0 or event.id not in answered:
                call = f"initial_events[{at}], a call of {event.tool_call_metadata.function_name}"
                raise UsageError(f"{call}, has no observation that names it as its cause")
            calls.add(event.id)
            yield event
        elif _is_answer(event) and event.cause in calls:
            yield event


def _is_answer(event: Event) -> bool:
    decision = isinstance(event, DecisionObservation)
    return isinstance(event, Observation) and event.cause is not None and not decision


_SETTINGS = {
    "model": "model.name",
    "permission_mode": "agent.approval",
    "allow": "security.allow",
    "deny": "security.deny",
    "max_turns": "agent.max_turns",
    "max_budget_usd": "agent.max_budget_usd",
    "max_time_s": "agent.max_time_s",
    "check": "run.check",
}
"""The setting of each option that has one."""
_OF_NEW_ONES = ("name", "instructions", "initial_events")


def open_session(
    options: SessionOptions,
) -> tuple[OpenSession, Respond | None, RequirementSpec | None]:
    """See `Session.open`."""
    _require_known(options)
    options = cast(SessionOptions, {k: v for k, v in options.items() if v is not None})
    given = options.get("session_id")
    use_configured_store(_values(options))
    folder = None if given is None else find(state_home(user_environ()), given)
    workspace = _workspace(options, folder)
    respond = options.get("fake_user_response_fn")
    stops = options.get("exit_on_message", False)
    answers = _Answers(options.get("approve"), respond)
    builder, notices = load_builder(
        workspace,
        _values(options),
        answers.questions if answers.approve or answers.respond else NOBODY,
        interactive=stops or respond is not None,
    )
    builder = replace(builder, more_tools=as_tools(options.get("tools", ())))
    required = requirement_spec(builder.settings.run, _schema(options), builder.environ)
    opened = _opened(builder, options, folder, notices)
    if answers.approve is None:
        # A function that answers questions does not allow anything.
        opened.agent = replace(opened.agent, approver=None)
    return opened, None if stops else respond, required


def _schema(options: SessionOptions) -> Path | Mapping[str, Any] | None:
    given = options.get("output_schema")
    return given if given is None or isinstance(given, Mapping) else Path(given)


def _require_known(options: SessionOptions) -> None:
    known = SessionOptions.__annotations__
    if wrong := [name for name in options if name not in known]:
        raise UsageError(f"there is no option {wrong[0]!r}", hint=f"there are {', '.join(known)}")
    for name in ("allow", "deny", "tools"):
        given = options.get(name, ())
        if isinstance(given, str) or callable(given):
            raise UsageError(f"{name} is a list", hint=f"for one alone: {name}=[…]")
    for name in ("approve", "fake_user_response_fn", "on_event"):
        given = options.get(name)
        if given is not None and not callable(given):
            raise UsageError(f"{name} is a function, and this is {given!r}")
    if "session_id" in options and (new := [name for name in _OF_NEW_ONES if name in options]):
        raise UsageError(f"{new[0]} is for a new session, and session_id names one that is there")


def _workspace(options: SessionOptions, folder: Path | None) -> Path:
    if folder is not None and "workspace" not in options:
        return workspace_of(folder)
    return resolve_workspace(str(options.get("workspace", ".")))


def _values(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that the options make, by dotted key."""
    more = options.get("settings", {})
    if isinstance(more, Settings):
        more = dict(dotted(more.model_dump(exclude_unset=True)))
    own = {key: options[name] for name, key in _SETTINGS.items() if name in options}
    listed = {key: list(value) for key, value in own.items() if key.startswith("security.")}
    return {**more, **own, **listed}


def _opened(
    builder: AgentBuilder, options: SessionOptions, folder: Path | None, notices: Sequence[str]
) -> OpenSession:
    def subscribers(session: SessionLog) -> Sequence[Subscriber]:
        tell = options.get("on_event")
        if tell is None:
            return ()
        for notice in notices:
            tell(Notice(notice))
        return (_Follower(tell, tell),)

    try:
        if folder is not None:
            return builder.reopen(folder, subscribers, options.get("model"), has_message=True)
        name = options.get("name")
        if name is not None:
            name = free_name(builder.home, name)
        earlier = earlier_conversation(options.get("initial_events", ()))
        prepared = builder.prepare()
        if text := options.get("instructions"):
            prepared = replace(prepared, system_text=f"{prepared.system_text}\n\n{text.strip()}")
        opened = builder.create(subscribers, name, prepared)
    except ValueError as error:
        # Two tools of one name.
        raise UsageError(str(error)) from error
    with opened.closed_on_failure():
        record_earlier(opened.session, earlier)
    return opened


@dataclass(frozen=True)
class _Follower:
    on_event: Callable[[Event], None]
    on_progress: Callable[[Progress], None]


@dataclass(frozen=True)
class _Answers:
    """An approver that asks functions."""

    approve: Callable[[Action, str], bool | str] | None
    respond: Respond | None

    @property
    def questions(self) -> UserQuestions:
        def asks(settings: Settings) -> ApproverFactory:
            return lambda policy, current_text: self

        return UserQuestions(approver_factory=asks)

    def ask(self, action: Action, reason: str, *, risk: Risk) -> Approval:
        said = self.approve(action, reason) if self.approve is not None else False
        return Approval(False, reason=said) if isinstance(said, str) else Approval(bool(said))

    def answer(self, question: str, options: Sequence[str]) -> str | None:
        return self.respond(question) if self.respond is not None else None
