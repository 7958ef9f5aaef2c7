"""stream-json: a session as JSON for programs, one object per line. See `stream_schema`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, TextIO

from agentcli.errors import OutputError
from agentcli.events import (
    Action,
    Event,
    Observation,
    Progress,
    Source,
    ToolCallMetadata,
    event_to_dict,
)
from agentcli.events import observations as obs
from agentcli.events.actions import MessageAction, SystemMessageAction
from agentcli.events.progress import Notice, ReplyAbandoned, Status
from agentcli.events.texts import compact_json, json_object
from agentcli.ui.summary import RunSummary

_SCHEMA_VERSION = 1
_SESSION_FACTS = ("model", "workspace", "version", "sandbox", "name", "resumed")

_Line = dict[str, Any]


class JsonLinesWriter:
    """Writes a line for each event as it comes, and a single `result` line at the end.

    With `result_only` that last line is the only one. Once `stream` can't be written any more,
    `on_failure` is called with the reason, and nothing more is written.
    """

    def __init__(
        self,
        stream: TextIO,
        session_id: str,
        *,
        result_only: bool = False,
        on_failure: Callable[[BrokenPipeError | OutputError], None] = lambda failure: None,
    ) -> None:
        self._stream = stream
        self.session_id = session_id
        self._result_only = result_only
        self._on_failure = on_failure
        self._seq = 0
        self._ended = False
        self._call_ids: dict[int, str] = {}
        self._not_calls: set[int] = set()
        """Ids of actions that no model asked for, such as the recall at the start."""
        self._retry_until = 0.0

    def on_event(self, event: Event) -> None:
        if not self._result_only:
            self._write(self._event_line(event), event.timestamp)

    def on_progress(self, progress: Progress) -> None:
        if not self._result_only:
            self._write(self._progress_line(progress))

    def write_notice(self, kind: str, message: str, **data: Any) -> None:
        """Write a notice about something outside of any session."""
        if not self._result_only:
            self._write(_notice(kind, message, **data))

    def write_result(self, summary: RunSummary) -> None:
        """Write the last line. Later calls write nothing."""
        line = {"type": "result", **asdict(summary), "duration_s": round(summary.duration_s, 3)}
        del line["session_id"], line["evidence_told"]
        hint = line.pop("hint")
        line["error"] = {"message": summary.error, "hint": hint} if summary.error else None
        self._write(line)
        self._ended = True

    def _event_line(self, event: Event) -> _Line | None:
        match event:
            case SystemMessageAction():
                return None
            case obs.SessionStartedObservation():
                facts = {name: getattr(event, name) for name in _SESSION_FACTS}
                return {"type": "init", "event_id": event.id, **facts}
            case MessageAction(source=Source.USER | Source.AGENT):
                role = "user" if event.source is Source.USER else "assistant"
                said = {"role": role, "content": event.content}
                return {"type": "message", "event_id": event.id, **said}
            case obs.AgentStateChangedObservation():
                return {
                    "type": "state",
                    "event_id": event.id,
                    "state": event.agent_state,
                    "reason": event.reason,
                    "message": event.content,
                    "exit_code": event.exit_code,
                }
            case Action(runnable=True, tool_call_metadata=ToolCallMetadata() as call):
                self._call_ids[event.id] = call.tool_call_id
                given = json_object(call.raw_arguments)
                return {
                    "type": "tool_use",
                    "event_id": event.id,
                    "tool_call_id": call.tool_call_id,
                    "name": call.function_name,
                    "input": call.raw_arguments if given is None else given,
                }
            case Action(runnable=True):
                self._not_calls.add(event.id)
            case obs.DecisionObservation():
                pass
            case Observation(cause=int() as cause) if cause not in self._not_calls:
                return self._tool_result(event, cause)
        content = getattr(event, "content", "") or event.message
        data = event_to_dict(event)
        return _notice(event.kind, content, event.id, **data.get("args", data.get("extras", {})))

    def _tool_result(self, observation: Observation, cause: int) -> _Line:
        failed = isinstance(observation, obs.ErrorObservation | obs.UserRejectObservation)
        call = observation.tool_call_metadata
        call_id = self._call_ids.pop(cause, None) or (call.tool_call_id if call else None)
        return {
            "type": "tool_result",
            "event_id": observation.id,
            "cause": cause,
            "tool_call_id": call_id,
            "kind": observation.kind,
            "content": observation.content,
            "is_error": failed or bool(getattr(observation, "error", False)),
            "data": event_to_dict(observation).get("extras", {}),
        }

    def _progress_line(self, progress: Progress) -> _Line | None:
        match progress:
            case Status(phase="retrying", detail=detail, until_s=delay):
                if delay is not None and delay < self._retry_until:
                    self._retry_until = delay
                    return None
                self._retry_until = delay or 0.0
                return _notice("retry", detail, delay_s=delay)
            case Status():
                self._retry_until = 0.0
            case ReplyAbandoned(reason=reason):
                return _notice("reply_abandoned", reason)
            case Notice(text=text):
                return _notice("notice", text)
        return None

    def _write(self, line: _Line | None, when: datetime | None = None) -> None:
        if line is None or self._ended:
            return
        head = {
            "type": line["type"],
            "schema_version": _SCHEMA_VERSION,
            "session_id": self.session_id,
            "seq": self._seq,
            "ts": (when or datetime.now(UTC)).isoformat(),
        }
        self._seq += 1
        data = encode({**head, **line}) + b"\n"
        binary = getattr(self._stream, "buffer", None)
        try:
            if binary is None:
                self._stream.write(data.decode())
            else:
                self._stream.flush()
                binary.write(data)
            self._stream.flush()
        except (BrokenPipeError, OutputError) as failure:
            self._ended = True
            self._on_failure(failure)


def _notice(kind: str, message: str, event_id: int | None = None, **data: Any) -> _Line:
    return {"type": "notice", "event_id": event_id, "kind": kind, "message": message, "data": data}


def encode(line: _Line) -> bytes:
    """Encode a line as compact JSON in UTF-8. Lone surrogates become U+FFFD; numbers that JSON does
    not have (NaN, infinities) become null."""
    try:
        return compact_json(line, allow_nan=False)
    except ValueError:
        return compact_json(_finite(line))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
