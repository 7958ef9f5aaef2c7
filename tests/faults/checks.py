"""What must hold of a session's files, whatever happened to the processes that wrote them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agentcli.errors import SessionError
from agentcli.events import event_from_dict
from agentcli.sessions.state import State, fold
from tests.faults.kept import Kept, KeptInFiles
from tests.faults.workload import DONE, JOURNAL

_NAME = re.compile(r"[0-9]{9}\.json")
_UNRUN = ("message", "system", "recall", "condensation")
_GAVE_ACCOUNT = (1, 130, 143)
"""Exit codes of a process that could still say itself what it left open."""
_STATE = "agent_state_changed"
_SAYS_NOT_STARTED = "Not started"

Record = dict[str, Any]


class Ledger:
    """Looks at the sessions after each process and remembers what it saw."""

    def __init__(self, workspace: Path, kept: Kept | None = None) -> None:
        self._workspace = workspace
        self._kept = kept or KeptInFiles()
        self._seen: dict[tuple[Path, str], bytes] = {}
        self._open: set[int] = set()

    def with_task(self, sessions: Iterable[Path]) -> Path | None:
        for folder in reversed(list(sessions)):
            if any(record.get("source") == "user" for record in self._records(folder, [])):
                return folder
        return None

    def is_answered(self, folder: Path | None) -> bool:
        """Whether the answer that ends the task is recorded."""
        records = self._records(folder, []) if folder else []
        return any(
            record.get("action") == "message" and record["args"]["content"] == DONE
            for record in records
        )

    def is_finished(self, folder: Path | None) -> bool:
        """Whether it is recorded that the task has ended."""
        records = self._records(folder, []) if folder else []
        states = [record["extras"] for record in records if record.get("observation") == _STATE]
        return bool(states) and states[-1]["agent_state"] == "finished"

    def look(self, sessions: list[Path], exit_code: int) -> list[str]:
        """What is wrong after a process that ended with `exit_code`, 0 being the end of all."""
        problems: list[str] = []
        now = {
            (folder, name): text
            for folder in sessions
            for name, text in self._kept.texts(folder).items()
            if _NAME.match(name)
        }
        for (folder, name), before in self._seen.items():
            if now.get((folder, name)) != before:
                problems.append(f"{folder.name}: {name} is gone or changed")
        self._seen |= now
        for folder in sessions:
            records = self._records(folder, problems)
            problems += _state_faults(self._kept.state(folder), records)
        folder = self.with_task(sessions)
        if folder is not None:
            records = self._records(folder, [])
            problems += self._unexplained_effects(records)
            open_now = {record["id"] for record in open_actions(records)}
            problems += self._unmarked(records, open_now)
            self._open |= open_now if exit_code else set()
            if exit_code in _GAVE_ACCOUNT:
                self._open |= {record["cause"] for record in records if _is_interrupted(record)}
        return problems

    def look_at_end(self, folder: Path) -> list[str]:
        """What is wrong with a session whose task is done."""
        records = self._records(folder, [])
        problems = [f"action {record['id']} is still open" for record in open_actions(records)]
        answers = Counter(r.get("cause") for r in records if _answers(r))
        discarded = _discarded(records)
        for action in _runnable(records):
            expected = 0 if action["reply"]["id"] in discarded else 1
            if answers[action["id"]] != expected:
                problems.append(f"action {action['id']} has {answers[action['id']]} observations")
        marked = {record["cause"] for record in records if _is_interrupted(record)}
        tools_used = {action["id"] for action in _runnable(records)}
        for action_id in (marked & tools_used) - self._open:
            problems.append(f"action {action_id} was called interrupted and was not")
        return problems + self._untrue_accounts(records)

    def _records(self, folder: Path, problems: list[str]) -> list[Record]:
        return _records(self._kept.texts(folder), problems)

    def _untrue_accounts(self, records: list[Record]) -> list[str]:
        """What an action was said to have done, or not, against the journal."""
        problems = []
        journal = self._journal()
        for action in _runnable(records):
            fate = next((r for r in records if _answers(r) and r["cause"] == action["id"]), {})
            done = [mark for mark in _marks(action) if mark in journal]
            if _SAYS_NOT_STARTED in fate.get("content", "") and done:
                problems.append(f"action {action['id']} was called not started, yet did {done}")
            ran = fate.get("observation") == "run" and not action["args"].get("background")
            if ran and len(done) < len(_marks(action)):
                problems.append(f"action {action['id']} is answered, yet did only {done}")
        return problems

    def _unmarked(self, records: list[Record], open_now: set[int]) -> list[str]:
        """Once a later process has asked the model again, nothing older is open."""
        resumed = [r["id"] for r in records if r.get("extras", {}).get("resumed")]
        if not resumed:
            return []
        left = [action for action in open_now if action in self._open and action < resumed[-1]]
        return [f"action {action} was open when the session went on" for action in left]

    def _unexplained_effects(self, records: list[Record]) -> list[str]:
        journal = self._journal()
        problems = [f"{mark} was done {n} times" for mark, n in journal.items() if n > 1]
        stored = {mark for action in _runnable(records) for mark in _marks(action)}
        discarded = _discarded(records)
        allowed = {
            mark
            for action in _runnable(records)
            if action["reply"]["id"] not in discarded
            for mark in _marks(action)
        }
        problems += [f"{mark} was done without an action" for mark in journal if mark not in stored]
        problems += [
            f"{mark} was done for a discarded reply"
            for mark in journal
            if mark in stored and mark not in allowed
        ]
        return problems

    def _journal(self) -> Counter[str]:
        path = self._workspace / JOURNAL
        return Counter(path.read_text().split() if path.exists() else ())


def open_actions(records: list[Record]) -> list[Record]:
    """Actions of whole replies that have no observation."""
    answered = {record.get("cause") for record in records if _answers(record)}
    parts = Counter(record["reply"]["id"] for record in records if "reply" in record)
    discarded = _discarded(records)
    return [
        action
        for action in _runnable(records)
        if action["id"] not in answered
        and parts[action["reply"]["id"]] == action["reply"]["total"]
        and action["reply"]["id"] not in discarded
    ]


def _records(texts: Mapping[str, bytes], problems: list[str]) -> list[Record]:
    """The events of a session; holes, torn files and strange names are added to `problems`."""
    records = []
    for name, text in sorted(texts.items()):
        if not _NAME.fullmatch(name):
            if not (name.startswith(".") and name.endswith(".tmp")):
                problems.append(f"{name} among the events")
            continue
        if int(name[:-5]) != len(records):
            problems.append(f"{name} follows event {len(records) - 1}")
        try:
            record = json.loads(text)
        except ValueError:
            problems.append(f"{name} is torn")
            continue
        if record.get("id") != int(name[:-5]):
            problems.append(f"{name} holds event {record.get('id')}")
        records.append(record)
    return records


def _state_faults(state: State | None, records: list[Record]) -> list[str]:
    if state is None:
        return []
    if state.end_id >= len(records):
        return [f"the state knows event {state.end_id} of {len(records)}"]
    try:
        events = [event_from_dict(record) for record in records[: state.end_id + 1]]
    except (ValueError, SessionError) as error:
        return [f"an event can't be read: {error}"]
    return [] if fold(events) == state else ["the state differs from its events"]


def _runnable(records: list[Record]) -> list[Record]:
    return [
        record
        for record in records
        if record.get("action") not in (None, *_UNRUN)
        and "reply" in record
        and "tool_call_metadata" in record
    ]


def _answers(record: Record) -> bool:
    return "observation" in record and record["observation"] != "decision" and "cause" in record


def _is_interrupted(record: Record) -> bool:
    return _answers(record) and record.get("extras", {}).get("error_id") == "interrupted"


def _discarded(records: list[Record]) -> set[str]:
    kind = "reply_discarded"
    return {r["extras"]["reply_id"] for r in records if r.get("observation") == kind}


def _marks(action: Record) -> list[str]:
    return re.findall(r"\. \./log ([\w-]+)", str(action.get("args", {}).get("command", "")))
