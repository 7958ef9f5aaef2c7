"""Random values: every kind of event, and histories as loops, crashes and people produce them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st
from pydantic import BaseModel

from agentcli.events import (
    Action,
    Event,
    Observation,
    OpaqueReplyData,
    ReplyPart,
    Source,
    ToolCallMetadata,
)
from agentcli.events.actions import CmdRunAction, MessageAction, SystemMessageAction
from agentcli.events.base import ACTIONS, COMMON_FIELDS, OBSERVATIONS
from agentcli.events.observations import (
    CmdOutputObservation,
    DecisionObservation,
    ErrorObservation,
    ReplyDiscardedObservation,
    UserRejectObservation,
)

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=5,
)
moments = st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1)).map(
    lambda moment: moment.replace(tzinfo=UTC)
)

st.register_type_strategy(str, text)
st.register_type_strategy(float, st.floats(0, 1e6, allow_nan=False))


def _values(hint: Any) -> st.SearchStrategy[Any]:
    """Values for a field's annotation; where it says Any, whatever JSON holds."""
    if hint is Any:
        return json_values
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is dict:
        return st.dictionaries(_values(arguments[0]), _values(arguments[1]), max_size=3)
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(_values(arguments[0]), max_size=3).map(tuple)
    if origin in (Union, UnionType):
        return st.one_of([_values(argument) for argument in arguments])
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        fields = get_type_hints(hint)
        return st.builds(hint, **{name: _values(fields[name]) for name in hint.model_fields})
    return st.from_type(hint)


def events_of(cls: type[Event]) -> st.SearchStrategy[Event]:
    """Any event of one class, its own fields and some common ones filled in."""
    hints = get_type_hints(cls)
    own = {
        name: _values(hints[name])
        for name in cls.model_fields
        if name not in COMMON_FIELDS - {"llm_metrics", "tool_call_metadata", "reply", "cause"}
    }
    return st.builds(
        cls,
        id=st.integers(0, 10**6),
        timestamp=moments,
        source=st.sampled_from(Source),
        **own,
    )


EVENT_CLASSES: list[type[Event]] = [*ACTIONS.values(), *OBSERVATIONS.values()]
events = st.sampled_from(EVENT_CLASSES).flatmap(events_of)

_call_ids = st.sampled_from(["call_1", "call_2", "call_3", "toolu_9"])
_thinking = OpaqueReplyData(provider="elsewhere", items=({"type": "thinking", "thinking": "…"},))


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """A session's events: replies with parallel calls, of which some are answered, refused or left
    open, torn replies, messages at any moment, notes to the model, ids used again."""
    log: list[Event] = []

    def add(event: Event) -> int:
        moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=len(log))
        log.append(event.model_copy(update={"id": len(log), "timestamp": moment}))
        return len(log) - 1

    add(SystemMessageAction(content="You help."))
    if draw(st.booleans()):
        add(MessageAction(content=draw(text), source=Source.USER))
    for number in range(draw(st.integers(0, 6))):
        answered_later = _reply(draw, add, f"r{number}")
        for _ in range(draw(st.integers(0, 2))):
            add(draw(_said))
        for cause in draw(st.permutations(answered_later)):
            if draw(st.booleans()):
                add(draw(_came_of).model_copy(update={"cause": cause}))
    return log


def _reply(draw: st.DrawFn, add: Any, reply_id: str) -> list[int]:
    actions: list[Action] = []
    if draw(st.booleans()):
        actions.append(MessageAction(content=draw(text)))
    for _ in range(draw(st.integers(0, 3))):
        arguments = draw(st.sampled_from(['{"command": "ls"}', "{broken", "[1]", ""]))
        metadata = ToolCallMetadata(
            function_name=draw(st.sampled_from(["bash", "fly me", "ö" * 70, ""])),
            tool_call_id=draw(_call_ids),
            raw_arguments=arguments,
        )
        actions.append(CmdRunAction(command="ls", tool_call_metadata=metadata))
    torn = draw(st.booleans()) and draw(st.booleans())
    total = len(actions) + torn
    open_calls = []
    for index, action in enumerate(actions):
        update: dict[str, Any] = {"reply": ReplyPart(id=reply_id, index=index, total=total)}
        if index == 0 and draw(st.booleans()):
            update["provider_data"] = _thinking
        event_id = add(action.model_copy(update=update))
        if action.tool_call_metadata is not None:
            open_calls.append(event_id)
    if torn and actions:
        add(ReplyDiscardedObservation(reply_id=reply_id))
        return []
    return open_calls


_said = st.one_of(
    st.builds(MessageAction, content=text, source=st.just(Source.USER)),
    st.builds(ErrorObservation, error_id=st.just("unusable_reply"), content=text),
    st.builds(
        DecisionObservation,
        decision=st.sampled_from(["allow", "deny"]),
        by=st.just("user"),
        cause=st.integers(0, 20),
    ),
)
_came_of: st.SearchStrategy[Observation] = st.one_of(
    st.builds(CmdOutputObservation, content=text),
    st.builds(ErrorObservation, error_id=st.just("x"), content=text),
    st.builds(UserRejectObservation, reason=text),
)
