"""Coding sessions made up from a seed: what is said, called and answered, step by step.

Nothing is measured from real people's sessions. The shape follows what is published and what this
project's own tools allow:

- Results make up most of a session: 84 % of an average turn of SWE-agent on SWE-bench Verified are
  observations (Lindenbauer et al. 2025, "The Complexity Trap"). Here it is some 80 % of the text;
  a test holds it between 70 and 90 %.
- Sizes are log-normal, as those of source files and of outputs are: many small, few long ones.
  Medians in characters are in `SIZES`: a read is 1 to 30 kB, a failing test run 2 to 30 kB.
- Work goes in rounds: explore (parallel greps and reads), then edit and test in turn, now and then
  a build that takes minutes. Each round has a few files that it comes back to: more than half of
  the reads show a file that was read before.
- The user speaks about every forty steps, after a pause that is often longer than a prompt cache
  lives; between steps it is seconds.
- A step may need something that an earlier result told (`needs`). How long ago is log-normal with a
  median of four steps: most of what is needed is recent, some of it is hundreds of steps old. What
  was read again, or changed, since counts as its newest form.

The same seed and options give the same session, event for event.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import log
from random import Random
from typing import Any

from agentcli.events import Action, Observation
from agentcli.events.actions import (
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    SearchAction,
    TaskTrackingAction,
)
from agentcli.events.observations import (
    CmdOutputObservation,
    FileEditObservation,
    FileReadObservation,
    SearchObservation,
    TaskTrackingObservation,
)

SIZES = {
    "read": (4_500, 0.9, 1_000, 30_000),
    "grep": (1_200, 1.0, 60, 20_000),
    "edit": (350, 0.5, 120, 1_500),
    "failing": (5_500, 0.8, 2_000, 30_000),
    "passing": (450, 0.6, 120, 2_000),
    "build": (8_000, 0.8, 1_500, 30_000),
    "command": (500, 1.0, 40, 8_000),
    "text": (280, 0.8, 40, 2_500),
    "change": (600, 0.9, 60, 6_000),
    "said": (220, 1.0, 30, 4_000),
    "task": (900, 0.7, 200, 5_000),
}
"""Of each kind of text, in characters: median, sigma of its logarithm, least and most."""

_FILES = 60
_FILES_OF_A_ROUND = 7
_NEED_SHARE = 0.5
_NEED_SIGMA = 1.4
_LEAST_NEEDED_CHARS = 300
_STEPS_BETWEEN_MESSAGES = 40
_WAIT_S = {"step": (12.0, 0.6), "build": (150.0, 0.8), "tests": (25.0, 0.7), "user": (120.0, 1.3)}
"""Seconds from request to request by what happens between them: median and sigma."""


@dataclass(frozen=True)
class Call:
    """What the model calls for and gets. `fact` names what the result tells: two results with the
    same fact say the same."""

    tool: str
    arguments: str
    action: Action
    result: Observation
    fact: str


@dataclass(frozen=True)
class Step:
    """What comes between two requests: what the user says before the reply (or nothing), the
    seconds that pass before the request, the facts that the reply is made from, and the reply."""

    said: str
    wait_s: float
    needs: tuple[str, ...]
    text: str
    calls: tuple[Call, ...]


@dataclass(frozen=True)
class Shape:
    """`steps` of a session; median age in steps of what is needed again."""

    steps: int
    need_age: float = 4.0


def session(shape: Shape, seed: int) -> list[Step]:
    """A whole session; its first step has the task as what the user says."""
    return list(_Maker(shape, Random(seed)).steps())


@dataclass
class _Maker:
    shape: Shape
    random: Random
    versions: dict[str, int] = field(default_factory=dict)
    facts: list[list[str]] = field(default_factory=list)
    """Of each step so far: what its long results told."""
    newest: dict[str, str] = field(default_factory=dict)
    """Of what a fact says of a file: the newest fact that says it."""
    outputs: int = 0

    def steps(self) -> Iterator[Step]:
        said, kind = self._prose("task"), "user"
        for number, (next_kind, calls) in enumerate(self._work()):
            if number == self.shape.steps:
                return
            if number and self.random.random() < 1 / _STEPS_BETWEEN_MESSAGES:
                said, kind = self._prose("said"), "user"
            needs = self._needs()
            self._tell(calls)
            text = self._prose("text") if self.random.random() < 0.7 else ""
            yield Step(said, self._wait(kind), needs, text, tuple(calls))
            said, kind = "", next_kind

    def _work(self) -> Iterator[tuple[str, list[Call]]]:
        """Kinds of waiting and calls, round after round."""
        number = 0
        while True:
            number += 1
            files = self.random.sample(range(_FILES), _FILES_OF_A_ROUND)
            paths = [f"src/part_{file % 9}/module_{file}.py" for file in files]
            yield "step", [self._plan(number)]
            for _ in range(self.random.randint(3, 9)):
                yield "step", [self._look(paths) for _ in range(self._parallel())]
            for _ in range(self.random.randint(3, 8)):
                yield from self._change(paths)
            if self.random.random() < 0.35:
                yield "build", [self._run("make -j4 all", "build", 0)]

    def _change(self, paths: list[str]) -> Iterator[tuple[str, list[Call]]]:
        if self.random.random() < 0.5:
            yield "step", [self._look(paths)]
        for _ in range(self.random.randint(1, 3)):
            yield "step", [self._edit(self._one_of(paths))]
        if self.random.random() < 0.3:
            yield "step", [self._run("git status --short && git diff --stat", "command", 0)]
        failing = self.random.random() < 0.55
        kind = "failing" if failing else "passing"
        yield "tests", [self._run("python -m pytest -q tests", kind, int(failing))]

    def _parallel(self) -> int:
        return self.random.choice((1, 1, 1, 2, 2, 3, 4))

    def _one_of(self, paths: list[str]) -> str:
        """One of `paths`, the first ones more often."""
        return paths[min(int(self.random.expovariate(0.5)), len(paths) - 1)]

    def _look(self, paths: list[str]) -> Call:
        return self._read(self._one_of(paths)) if self.random.random() < 0.65 else self._grep()

    def _read(self, path: str) -> Call:
        version = self.versions.setdefault(path, 0)
        fact = f"{path}@{version}"
        # The size is the file's own: a change does not make it another file.
        size = self._size("read", Random(path))
        content = _text(fact, size)
        lines = content.count("\n") + 1
        return Call(
            "read",
            json.dumps({"path": path}),
            FileReadAction(path=path),
            FileReadObservation(
                path=path, content=content, digest=fact, lines_shown=(1, lines), lines_total=lines
            ),
            fact,
        )

    def _grep(self) -> Call:
        self.outputs += 1
        fact = f"grep {self.outputs}"
        pattern = f"name_{self.outputs}"
        return Call(
            "grep",
            json.dumps({"pattern": pattern, "path": "src"}),
            SearchAction(pattern=pattern, path="src"),
            SearchObservation(content=_text(fact, self._size("grep")), matches=12),
            fact,
        )

    def _edit(self, path: str) -> Call:
        self.versions[path] = self.versions.get(path, 0) + 1
        fact = f"{path}@{self.versions[path]} edited"
        size = self._size("change")
        old, new = _text(f"{path} old", size // 2), _text(fact, size)
        return Call(
            "edit",
            json.dumps({"path": path, "old": old, "new": new}),
            FileEditAction(path=path, old_str=old, new_str=new),
            FileEditObservation(path=path, content=_text(fact, self._size("edit"))),
            fact,
        )

    def _run(self, command: str, kind: str, exit_code: int) -> Call:
        self.outputs += 1
        fact = f"output {self.outputs} of {command}"
        metadata: dict[str, Any] = {"exit_code": exit_code, "duration_s": 1.0}
        return Call(
            "bash",
            json.dumps({"command": command}),
            CmdRunAction(command=command),
            CmdOutputObservation.model_validate(
                {"command": command, "content": _text(fact, self._size(kind)), "metadata": metadata}
            ),
            fact,
        )

    def _plan(self, number: int) -> Call:
        states = ["done"] * (number % 5) + ["in_progress"] + ["todo"] * (4 - number % 5)
        tasks = tuple(
            {"id": str(place), "title": f"part {place} of round {number}", "status": state}
            for place, state in enumerate(states, 1)
        )
        return Call(
            "todo",
            json.dumps({"command": "plan", "tasks": tasks}),
            TaskTrackingAction(command="plan", task_list=tasks),
            TaskTrackingObservation(command="plan", task_list=tasks, content="The plan is kept."),
            f"plan {number}",
        )

    def _tell(self, calls: list[Call]) -> None:
        self.facts.append([call.fact for call in calls if _is_telling(call)])
        for call in calls:
            if isinstance(call.action, FileReadAction):
                self.newest[call.action.path] = call.fact

    def _needs(self) -> tuple[str, ...]:
        if not self.facts or self.random.random() >= _NEED_SHARE:
            return ()
        age = int(self.random.lognormvariate(log(self.shape.need_age), _NEED_SIGMA)) + 1
        told = self.facts[-age] if age <= len(self.facts) else []
        if not told:
            return ()
        fact = self.random.choice(told)
        return (self.newest.get(fact.partition("@")[0], fact),)

    def _wait(self, kind: str) -> float:
        median, sigma = _WAIT_S[kind]
        return round(self.random.lognormvariate(log(median), sigma), 1)

    def _prose(self, kind: str) -> str:
        return _text("words", self._size(kind))

    def _size(self, kind: str, random: Random | None = None) -> int:
        median, sigma, least, most = SIZES[kind]
        drawn = (random or self.random).lognormvariate(log(median), sigma)
        return int(min(max(drawn, least), most))


def _is_telling(call: Call) -> bool:
    """Whether what the result tells is worth coming back to."""
    return len(call.result.content) >= _LEAST_NEEDED_CHARS and call.tool != "edit"


def _text(about: str, chars: int) -> str:
    """Lines that are told apart by what they are about, `chars` in all."""
    line = f"{about}: and so it goes on, one line like the other,\n"
    return (line * (chars // len(line) + 1))[:chars]
