"""Histories of a turn as a session would record them, in a few words each."""

from __future__ import annotations

import json
from collections.abc import Sequence

from agentcli.events import Action, Event, Observation, ReplyPart, Source, ToolCallMetadata
from agentcli.events.actions import (
    CmdRunAction,
    CondensationAction,
    FileEditAction,
    FileReadAction,
    IPythonRunCellAction,
    MessageAction,
)
from agentcli.events.observations import (
    AgentStateChangedObservation,
    CmdMetadata,
    CmdOutputObservation,
    ErrorObservation,
    FileEditObservation,
    FileReadObservation,
    IPythonRunCellObservation,
)

Done = tuple[Action, Observation]


class History:
    """Events with ids from 0; begins with a task of the user."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._replies = 0
        self.user("do it")

    def add(self, event: Event) -> Event:
        self.events.append(event.model_copy(update={"id": len(self.events)}))
        return self.events[-1]

    def user(self, text: str, delivery: str | None = None) -> History:
        self.add(MessageAction(content=text, source=Source.USER, delivery=delivery))
        return self

    def told(self, text: str, nudge: str | None = None) -> History:
        self.add(MessageAction(content=text, source=Source.ENVIRONMENT, nudge=nudge))
        return self

    def said(self, text: str) -> History:
        self.step(text=text)
        return self

    def condensed(self) -> History:
        self.add(CondensationAction(forgotten_start_id=0, forgotten_end_id=1))
        return self

    def ended(self, reason: str) -> History:
        self.add(AgentStateChangedObservation(agent_state="error", reason=reason))
        return self

    def step(self, *done: Done, text: str = "") -> History:
        """One reply: its text, its calls, then what came of them."""
        self._replies += 1
        total = len(done) + bool(text)
        events = [MessageAction(content=text)] if text else []
        for index, event in enumerate([*events, *(action for action, _ in done)]):
            part = ReplyPart(id=f"r{self._replies}", index=index, total=total)
            self.add(event.model_copy(update={"reply": part}))
        first = len(self.events) - len(done)
        for index, (_, observation) in enumerate(done):
            self.add(observation.model_copy(update={"cause": first + index}))
        return self

    def steps(self, steps: Sequence[Done]) -> History:
        for done in steps:
            self.step(done)
        return self


def _call(name: str, **arguments: object) -> ToolCallMetadata:
    return ToolCallMetadata(
        function_name=name, tool_call_id="c", raw_arguments=json.dumps(arguments)
    )


def bash(command: str, output: str = "", code: int = 0, *, full: str | None = None) -> Done:
    metadata = CmdMetadata(exit_code=code, truncated=bool(full), full_output_path=full)
    return (
        CmdRunAction(command=command, tool_call_metadata=_call("bash", command=command)),
        CmdOutputObservation(content=output, command=command, metadata=metadata),
    )


def job(status: str) -> Done:
    call = _call("bash", command="status", job="job-1")
    metadata = CmdMetadata(job_id="job-1")
    return (
        CmdRunAction(command="status", job="job-1", tool_call_metadata=call),
        CmdOutputObservation(content=status, command="status", metadata=metadata),
    )


def refused(name: str, error: str, **arguments: object) -> Done:
    action = FileReadAction(path="x", tool_call_metadata=_call(name, **arguments))
    return action, ErrorObservation(error_id="tool_failed", content=error)


def read(path: str, text: str, start: int = 1) -> Done:
    call = _call("read", path=path, start=start)
    return (
        FileReadAction(path=path, start=start, tool_call_metadata=call),
        FileReadObservation(content=text, path=path, digest=f"digest of {text}"),
    )


def edit(path: str, old: str, new: str) -> Done:
    call = _call("edit", path=path, old_str=old, new_str=new)
    return (
        FileEditAction(path=path, old_str=old, new_str=new, tool_call_metadata=call),
        FileEditObservation(
            content=f"edited {path}",
            path=path,
            digest=f"digest of {new}",
            diff=f"-{old}\n+{new}" if old != new else "",
        ),
    )


def cell(code: str, output: str, *, error: bool = False) -> Done:
    return (
        IPythonRunCellAction(code=code, tool_call_metadata=_call("python", code=code)),
        IPythonRunCellObservation(content=output, code=code, error=error),
    )
