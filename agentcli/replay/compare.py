"""Compare the results of an action in two runs."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from agentcli.events import Action, Observation
from agentcli.events.actions import CmdRunAction, GlobAction, IPythonRunCellAction
from agentcli.events.base import COMMON_FIELDS
from agentcli.replay.normalise import Normaliser

_INCIDENTAL = frozenset(
    (
        *("content", "command", "code", "path", "digest", "old_content", "pid", "duration_s"),
        *("full_output_path", "exports_layer", "job_id"),
    )
)
"""Fields of an observation that are not results, or are compared in another way."""
_CONTEXT = 2


@dataclass(frozen=True)
class Difference:
    """The first difference between two runs. `event_id` is that of the observation; `action` says
    in words what was done."""

    event_id: int
    action: str
    diff: str
    note: str = ""


def difference(
    action: Action,
    recorded: Observation,
    now: Observation,
    before: Normaliser,
    after: Normaliser,
) -> Difference | None:
    """Return how `now` differs from what was `recorded`, None if it doesn't. Each is normalised by
    the normaliser of its own run."""
    if isinstance(action, CmdRunAction) and _is_cut_by_time(action):
        old, new = [recorded.kind], [now.kind]
    else:
        old, new = _described(action, recorded, before), _described(action, now, after)
    if old == new:
        return None
    note = "the same lines, in another order" if sorted(old) == sorted(new) else ""
    return Difference(recorded.id, action.message, unified_diff(old, new), note)


def _is_cut_by_time(action: CmdRunAction) -> bool:
    """Whether it depends on the machine's speed how much of the output is there."""
    return action.background or (action.job is not None and action.command.strip() == "stop")


def unified_diff(old: Sequence[str], new: Sequence[str]) -> str:
    """Return a diff of lines, without line ends."""
    return "\n".join(difflib.unified_diff(old, new, "recorded", "now", lineterm="", n=_CONTEXT))


def _described(action: Action, observation: Observation, normaliser: Normaliser) -> list[str]:
    """Return the result of an action as lines: facts, then the content."""
    clean: Callable[[str], str] = normaliser.of_file
    if isinstance(action, CmdRunAction | IPythonRunCellAction):
        of_git = isinstance(action, CmdRunAction) and "git" in action.command

        def clean(text: str) -> str:
            return normaliser.of_output(text, of_git=of_git)

    values = observation.model_dump(mode="json", exclude_defaults=True, exclude=set(COMMON_FIELDS))
    facts = [f"result: {observation.kind}", *(clean(fact) for fact in _facts(values))]
    lines = clean(observation.content).splitlines()
    if isinstance(action, GlobAction):
        # The newest file comes first, and in a copy every file is new.
        lines.sort()
    return [*facts, *lines]


def _facts(values: dict[str, Any], above: str = "") -> Iterator[str]:
    """Yield a line for each field; `above` is the path of names before it."""
    for name, value in values.items():
        if name in _INCIDENTAL:
            continue
        if name == "image_urls":
            value = [hashlib.sha256(url.encode()).hexdigest()[:16] for url in value]
        if isinstance(value, dict):
            yield from _facts(value, f"{above}{name}.")
        elif isinstance(value, str) and "\n" in value:
            yield f"{above}{name}:"
            yield from value.splitlines()
        else:
            shown = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
            yield f"{above}{name}: {shown}"
