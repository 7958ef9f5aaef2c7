"""Sessions long enough to be condensed: steps with parallel calls, long results, images, plans,
interrupts, resumes, and people who speak at any moment."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zlib import compress, crc32

from hypothesis import strategies as st

from agentcli.events import Event, ReplyPart, Source, ToolCallMetadata
from agentcli.events.actions import (
    CmdRunAction,
    CondensationRequestAction,
    FileReadAction,
    MessageAction,
    SystemMessageAction,
    TaskTrackingAction,
)
from agentcli.events.observations import (
    AgentStateChangedObservation,
    BrowserOutputObservation,
    CmdOutputObservation,
    DecisionObservation,
    ErrorObservation,
    FileReadObservation,
    RecallObservation,
    ReplyDiscardedObservation,
    SuccessObservation,
    UserRejectObservation,
)

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def png(width: int, height: int) -> str:
    """A data URL of a black image of this size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = compress(bytes((width + 1) * height))
    image = chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + image).decode()


class Log(list[Event]):
    """A session's events; `add` gives them ids and times."""

    def __init__(self, *first: Event) -> None:
        super().__init__()
        self.replies = 0
        for event in first:
            self.add(event)

    def add(self, event: Event, seconds: float = 1.0) -> Event:
        then = self[-1].timestamp if self else BEGIN
        update = {"id": len(self), "timestamp": then + timedelta(seconds=seconds)}
        self.append(event.model_copy(update=update))
        return self[-1]

    def say(self, text: str) -> Event:
        return self.add(MessageAction(content=text, source=Source.USER))

    def step(self, *calls: Event, text: str = "", torn: bool = False) -> list[Event]:
        """One reply: its text, then its calls."""
        self.replies += 1
        parts = [MessageAction(content=text)] if text or not calls else []
        parts += [
            call.model_copy(
                update={
                    "tool_call_metadata": ToolCallMetadata(
                        function_name="bash",
                        tool_call_id=f"call_{self.replies}_{number}",
                        raw_arguments=getattr(call, "command", None) or "{}",
                    )
                }
            )
            for number, call in enumerate(calls)
        ]
        total = len(parts) + torn
        reply_id = f"r{self.replies}"
        return [
            self.add(
                part.model_copy(update={"reply": ReplyPart(id=reply_id, index=index, total=total)})
            )
            for index, part in enumerate(parts)
        ]

    def run(self, command: str, output: str, exit_code: int = 0) -> Event:
        """A step of one command and its result; the result is returned."""
        (action,) = self.step(CmdRunAction(command=command))
        metadata = {"exit_code": exit_code}
        return self.add(CmdOutputObservation(content=output, cause=action.id, metadata=metadata))


def session(task: str = "Fix the bug.") -> Log:
    log = Log(SystemMessageAction(content="You help."))
    log.say(task)
    return log


_words = st.sampled_from(["alpha", "beta\nbeta", "g" * 300, "d\n" * 800, "e" * 2500])


@st.composite
def stories(draw: st.DrawFn) -> list[list[Event]]:
    """What happens between one request to the model and the next, from the start of a session on;
    ids and times are given by who records it."""
    start = [SystemMessageAction(content="You help.")]
    said = [MessageAction(content=draw(_words), source=Source.USER)]
    facts = RecallObservation(recall_type="workspace_context", content="a folder", cause=0)
    return [[*start, *said, facts], *(list(draw(_happenings())) for _ in range(draw(_lengths)))]


_lengths = st.integers(0, 24)


@st.composite
def _happenings(draw: st.DrawFn) -> Iterator[Event]:
    return iter(draw(st.lists(st.one_of(_steps, _steps, _steps, _others), min_size=1, max_size=2)))


class Step(MessageAction):
    """Stands for a whole reply until it is recorded."""

    kinds: tuple[str, ...] = ()
    fate: str = "answered"


_kinds = st.sampled_from(["run", "read", "browse", "plan", "request"])
_fates = st.sampled_from(["answered", "answered", "answered", "left open", "refused", "torn"])
_steps = st.builds(Step, content=_words, kinds=st.lists(_kinds, max_size=3).map(tuple), fate=_fates)
_others = st.one_of(
    st.builds(MessageAction, content=_words, source=st.just(Source.USER)),
    st.builds(MessageAction, content=_words, source=st.just(Source.ENVIRONMENT)),
    st.just(AgentStateChangedObservation(agent_state="finished")),
    st.builds(ErrorObservation, error_id=st.just("unusable_reply"), content=_words),
    st.builds(DecisionObservation, decision=st.just("allow"), by=st.just("user")),
)

_ACTIONS = {
    "run": CmdRunAction(command="make"),
    "read": FileReadAction(path="a.py"),
    "browse": CmdRunAction(command="browse"),
    "plan": TaskTrackingAction(
        command="plan", task_list=({"title": "write tests", "status": "in_progress"},)
    ),
    "request": CondensationRequestAction(focus="the bug"),
}


def record(log: Log, happening: Event) -> None:
    """Append what a story holds, with what comes of it."""
    if not isinstance(happening, Step):
        log.add(happening)
        return
    calls = [_ACTIONS[kind] for kind in happening.kinds]
    events = log.step(*calls, text=happening.content, torn=happening.fate == "torn")
    if happening.fate == "torn":
        log.add(ReplyDiscardedObservation(reply_id=f"r{log.replies}"))
        return
    for event, kind in zip(events[len(events) - len(calls) :], happening.kinds, strict=True):
        if happening.fate == "refused":
            log.add(UserRejectObservation(cause=event.id, reason="no"))
        elif happening.fate == "answered":
            log.add(_result(kind, happening.content).model_copy(update={"cause": event.id}))


def _result(kind: str, content: str) -> Event:
    text = content * 2
    match kind:
        case "run":
            return CmdOutputObservation(content=text)
        case "read":
            return FileReadObservation(path="a.py", content=text, image_urls=(png(40, 30),))
        case "browse":
            return BrowserOutputObservation(url="http://127.0.0.1/", content=text)
    return SuccessObservation(content="noted")
