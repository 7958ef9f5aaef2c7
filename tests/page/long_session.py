"""Generates a long, realistic session: turns of commands, reads and edits, the work of a child,
and a condensation whenever the window is full."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from agentcli.events import (
    Action,
    Event,
    LLMMetrics,
    Observation,
    ReplyPart,
    Source,
    ToolCallMetadata,
    event_to_dict,
)
from agentcli.events.actions import (
    AgentDelegateAction,
    AgentFinishAction,
    CmdRunAction,
    CondensationAction,
    FileEditAction,
    FileReadAction,
    MessageAction,
    SearchAction,
    SystemMessageAction,
    TaskTrackingAction,
    tool_name,
)
from agentcli.events.observations import (
    AgentStateChangedObservation,
    CheckpointObservation,
    CmdMetadata,
    CmdOutputObservation,
    DelegateObservation,
    DelegateStartedObservation,
    FileEditObservation,
    FileReadObservation,
    SearchObservation,
    SessionStartedObservation,
    SuccessObservation,
    TaskTrackingObservation,
)
from agentcli.sessions.export import Trajectory

SESSION, CHILD = "20261120-093012-7c4e", "20261120-094120-b0d2"
_FULL = 120_000
_FILES = (
    "scanner",
    "cursor",
    "tokens",
    "errors",
    "unicode_tables",
    "literals",
    "comments",
    "spans",
)
_TASKS = (
    "The scanner loses the last token of a file that does not end in a newline.\n\n"
    "    $ printf 'let x = 1' | ./lex -\n    LET NAME(x) EQUALS\n\n"
    "Find out why, fix it and add a test. Keep `read()` as fast as it is.",
    "Good. Now let errors name the column as well, counted in characters and not in bytes.",
    "Are numbers such as 1_000_000 and 0x1F read as one token? If not, make it so.",
    "Move what is left of the old tokenizer into `literals.py`, without a change in behaviour.",
)
_SAID = (
    "The tests first, to see what fails.",
    "`Cursor.take()` stops at the newline, so what stands behind the last one is never flushed. "
    "The loop in `scan()` has to ask once more when the input ends:\n\n"
    "- `cursor.py` tells the end apart from an empty line\n- `scanner.py` flushes what is pending",
    "That was it: **all tests pass**. Before I go on I look at who else calls `take()`.",
    "### What is left\n\n1. `Span.column` counts bytes, which is wrong after any `é`\n"
    "2. `errors.py` prints the span as it is\n\n"
    "```python\ncolumn = len(line[:offset].decode())\n```",
    "",
    "",
)
_TODO = ("Reproduce the loss", "Flush at the end of input", "Columns in characters", "Measure")


@dataclass
class LongSession:
    """A session under construction; `lines` is the length of its longest outputs."""

    lines: int = 300
    parent: str | None = None
    random: random.Random = field(default_factory=lambda: random.Random(16))
    events: list[Event] = field(default_factory=list)
    tokens: int = 2_400
    replies: int = 0
    now: datetime = datetime(2026, 11, 20, 9, 30, 12, tzinfo=UTC)

    def __post_init__(self) -> None:
        self.put(
            SessionStartedObservation(
                **{"version": "1", "model": "anthropic/claude-sonnet-5-5", "sandbox": "bubblewrap"},
                **{"workspace": "/home/ada/src/lexer", "pid": 1, "host": "h"},
                session_id=CHILD if self.parent else SESSION,
            )
        )
        tools = tuple({"name": name, "description": "", "parameters": {}} for name in _FILES)
        self.put(SystemMessageAction(content="You work in the user's project.", tools=tools))

    def put(self, event: Event) -> int:
        self.now += timedelta(seconds=self.random.uniform(0.2, 4))
        told = event.model_copy(update={"id": len(self.events), "timestamp": self.now})
        self.events.append(told)
        return told.id

    def say(self, text: str) -> None:
        self.put(MessageAction(content=text, source=Source.USER))
        self.put(AgentStateChangedObservation(agent_state="running"))

    def reply(self, text: str, *actions: Action) -> list[int]:
        """Record a reply of the model; return the ids of its actions."""
        self.replies += 1
        parts: list[Event] = [MessageAction(content=text)] if text else []
        for number, action in enumerate(actions):
            call = {"function_name": tool_name(action), "tool_call_id": f"{self.replies}.{number}"}
            told = ToolCallMetadata(**call, raw_arguments=json.dumps({"about": action.message}))
            parts.append(action.model_copy(update={"tool_call_metadata": told}))
        missed = self.random.random() < 0.03
        metrics = LLMMetrics(
            model="claude-sonnet-5-5",
            prompt_tokens=self.tokens,
            cache_read_tokens=0 if missed else int(self.tokens * 0.94),
            completion_tokens=(written := self.random.randint(60, 600)),
            cost_usd=self.tokens * (3e-6 if missed else 4.6e-7) + written * 15e-6,
            latency_s=round(self.random.uniform(1, 9), 1),
        )
        ids = []
        for index, part in enumerate(parts):
            place = ReplyPart(id=f"r{self.replies}", index=index, total=len(parts))
            paid = {"llm_metrics": metrics} if index == 0 else {}
            ids.append(self.put(part.model_copy(update={"reply": place, **paid})))
        self.tokens += 900
        return ids[len(parts) - len(actions) :]

    def answer(self, call: int, observation: Observation) -> None:
        self.put(observation.model_copy(update={"cause": call}))

    # --- steps

    def step(self) -> None:
        if self.tokens > _FULL:
            self._condense()
        kind = self.random.choices(
            (self._run, self._edit, self._read, self._search, self._plan), (30, 28, 30, 8, 4)
        )[0]
        kind(self.random.choice(_SAID))

    def _run(self, said: str) -> None:
        command = self.random.choice(("pytest -q", "python -m lexer examples/", "git diff --stat"))
        (call,) = self.reply(said, CmdRunAction(command=command))
        self.put(CheckpointObservation(tree="5b1e" * 10))
        lines = self.random.choice((2, 6, 20, 60, self.lines))
        failed = self.random.random() < 0.2
        rows = [
            f"tests/test_{self._file()}.py::test_case_{n:03} {'PASSED' if n % 17 else 'FAILED'}"
            for n in range(1, lines + 1)
        ]
        told = CmdMetadata(exit_code=int(failed), duration_s=self.random.uniform(0.1, 12))
        self.answer(call, CmdOutputObservation(content="\n".join(rows), metadata=told))

    def _edit(self, said: str) -> None:
        path = f"lexer/{self._file()}.py"
        (call,) = self.reply(said, FileEditAction(path=path, old_str="a", new_str="b"))
        self.put(CheckpointObservation(tree="5b1e" * 10))
        hunks = self.random.choice((1, 1, 2, 5))
        change = "".join(self._hunk(40 * number) for number in range(1, hunks + 1))
        self.answer(call, FileEditObservation(path=path, diff=change, digest=f"{call:064x}"))

    def _hunk(self, line: int) -> str:
        name = self._file()
        return (
            f"@@ -{line},4 +{line},6 @@\n"
            f"     def scan_{name}(self, cursor: Cursor) -> Iterator[Token]:\n"
            f"         while char := cursor.take():\n"
            f"-            yield from self.{name}(char)\n"
            f"+            yield from self.{name}(char, cursor.span)\n"
            f"+        if cursor.pending:\n"
            f"+            yield self.flush(cursor)\n"
            f"     \n"
        )

    def _read(self, said: str) -> None:
        files = [f"lexer/{self._file()}.py" for _ in range(self.random.randint(1, 3))]
        calls = self.reply(said, *(FileReadAction(path=path) for path in files))
        for call, path in zip(calls, files, strict=True):
            lines = self.random.choice((30, 90, self.lines))
            rows = (
                f"{n:6}\t    {self._file()} = self.{self._file()}[{n}]  # as in the grammar"
                for n in range(1, lines + 1)
            )
            seen = FileReadObservation(path=path, lines_total=lines, lines_shown=(1, lines))
            self.answer(call, seen.model_copy(update={"content": "\n".join(rows)}))

    def _search(self, said: str) -> None:
        (call,) = self.reply(said, SearchAction(pattern=r"cursor\.take\(", path="lexer"))
        rows = [f"lexer/{self._file()}.py:{n}: while char := cursor.take():" for n in range(9, 40)]
        self.answer(call, SearchObservation(content="\n".join(rows), matches=len(rows)))

    def _plan(self, said: str) -> None:
        states = ("done", "done", "in_progress", "todo")
        items = tuple(
            {"id": str(n), "title": title, "status": status}
            for n, (title, status) in enumerate(zip(_TODO, states, strict=True))
        )
        (call,) = self.reply(said, TaskTrackingAction(command="plan", task_list=items))
        self.answer(call, TaskTrackingObservation(command="plan", task_list=items))

    def _condense(self) -> None:
        gone = [e.id for e in self.events[3:-12] if e.source is not Source.USER]
        self.put(
            CondensationAction(
                forgotten_event_ids=tuple(gone),
                summary="## Done\n\n1. `scan()` flushes what is pending at the end of input\n"
                "2. errors name the column, in characters\n\n## Left to do\n\n- measure `read()`",
                summary_offset=3,
                reason="the window was 75 % full",
                numbers={"tokens_before": float(self.tokens), "tokens_after": 11_000.0},
            )
        )
        self.tokens = 11_000

    def _file(self) -> str:
        return self.random.choice(_FILES)

    def delegate(self, child: LongSession) -> None:
        task = "Find every caller of `take()` outside of `lexer/`. Report each with its line."
        found = "Three call it:\n\n| file | line |\n|---|---|\n| `tools/lex.py` | 40 |\n"
        found += "| `tests/helpers.py` | 9 |\n| `benchmarks/read.py` | 112 |\n"
        child.say(task)
        for _ in range(6):
            child.step()
        child.reply(found)
        told = "Somebody else can look for its callers meanwhile."
        (call,) = self.reply(told, AgentDelegateAction(agent="explorer", inputs={"task": task}))
        started = DelegateStartedObservation(action_id=call, session_id=CHILD, agent="explorer")
        self.put(started)
        done = {"agent": "explorer", "session_id": CHILD, "steps": child.replies, "cost_usd": 0.02}
        self.answer(call, DelegateObservation(content=found, **done))

    def finish(self) -> None:
        (call,) = self.reply("", CmdRunAction(command="pytest -q"))
        passed = CmdMetadata(exit_code=0, duration_s=3.4)
        self.answer(call, CmdOutputObservation(content="214 passed in 3.21s", metadata=passed))
        last = AgentFinishAction(
            final_thought="The last token is kept: `scan()` flushes what is pending when the input "
            "ends. Columns are counted in characters. `read()` is as fast as it was.",
        )
        (call,) = self.reply("", last)
        self.answer(call, SuccessObservation())
        self.put(AgentStateChangedObservation(agent_state="finished", exit_code=0))


def long_session(events: int, lines: int = 300) -> Trajectory:
    """Return a session of about that many events, in four turns, with a child."""
    session, child = LongSession(lines), LongSession(30, parent=SESSION)
    for number, task in enumerate(_TASKS, 1):
        session.say(task)
        while len(session.events) < events * number / len(_TASKS) - 8:
            session.step()
            if number == 1 and session.replies == 4:
                session.delegate(child)
    session.finish()
    inner = Trajectory(_header(child, CHILD), _told(child))
    return Trajectory(_header(session, SESSION), _told(session), lambda: {CHILD: inner})


def _told(session: LongSession) -> Iterator[dict[str, Any]]:
    return (event_to_dict(event) for event in session.events)


def _header(session: LongSession, session_id: str) -> dict[str, Any]:
    paid = [event.llm_metrics for event in session.events if event.llm_metrics]
    children = (event for event in session.events if isinstance(event, DelegateObservation))
    counted = ("prompt_tokens", "completion_tokens", "cache_read_tokens")
    return {
        **{"format_version": 1, "session_id": session_id, "name": None, "state": "finished"},
        "title": next(e.message for e in session.events if isinstance(e, MessageAction)),
        **{"workspace": "/home/ada/src/lexer", "model": "anthropic/claude-sonnet-5-5"},
        "created_at": session.events[0].timestamp.isoformat(),
        "updated_at": session.events[-1].timestamp.isoformat(),
        "cost_usd": sum(spent.cost_usd or 0 for spent in (*paid, *children)),
        "usage": {name: sum(getattr(metrics, name) for metrics in paid) for name in counted},
    }
