"""The definition of a tool. Each file in this folder that defines `TOOL` is one, named like the
file; so is each that an outside package registers in the entry point group `agentcli.tools`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict
from pydantic_core import to_jsonable_python

from agentcli.events import Action, Event, Observation
from agentcli.events.actions import ToolCallAction
from agentcli.events.observations import ToolResultObservation
from agentcli.messages import ImageLimits, ToolSchema
from agentcli.plain_json import LISTS, MAPS, SCHEMAS, plain
from agentcli.security.policy.rule import Pattern
from agentcli.shell.output import clean
from agentcli.web.addresses import JudgeURL, PageLimits

if TYPE_CHECKING:
    from agentcli.browser.browser import Browser
    from agentcli.git.watch import GitWatch
    from agentcli.knowledge.notes import Notes
    from agentcli.sandbox.selection import Sandbox
    from agentcli.shell.python import PythonInterpreter
    from agentcli.shell.shell import Shell
    from agentcli.workspace.private import OutputFolder
    from agentcli.workspace.tracking import FileTracker


MOST_CHARS = 20_000


def parameters(schema: Mapping[str, Any], *, terse: bool = False) -> dict[str, Any]:
    """Return `schema` in its plain form, without what tells a model nothing. One that is too large
    is replaced by one that allows anything. A `terse` one does not say whether there are other
    arguments, nor defaults that only say that an argument may be left out."""
    found = _thrifty(plain(schema), terse)
    too_long = len(json.dumps(found, ensure_ascii=False)) > MOST_CHARS
    return {"type": "object", "properties": {}} if too_long else found


def _thrifty(node: dict[str, Any], terse: bool) -> dict[str, Any]:
    kept = {
        key: value
        for key, value in _without_null(node).items()
        if key != "title" and not (terse and _is_of_course(key, value))
    }
    return {key: _value(key, value, terse) for key, value in kept.items()}


def _value(key: str, value: Any, terse: bool) -> Any:
    if key in MAPS:
        return {name: _thrifty(part, terse) for name, part in value.items()}
    if key in LISTS:
        return [_thrifty(part, terse) for part in value]
    return (
        _thrifty(value, terse) if key in SCHEMAS and not isinstance(value, bool) else _clean(value)
    )


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value.encode("utf-8", "replace"))
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return {k: _clean(v) for k, v in value.items()} if isinstance(value, dict) else value


def _without_null(node: dict[str, Any]) -> dict[str, Any]:
    """Drop a null alternative that is the default: it is the same as leaving the argument out, and
    takes a third of the tokens."""
    match node:
        case {"default": None, "anyOf": [dict() as kind, {"type": "null"}]}:
            outer = {key: node[key] for key in node if key not in ("anyOf", "default")}
            return {**kind, **outer}
    return node


def _is_of_course(key: str, value: object) -> bool:
    says_optional = key == "default" and (not value or value == ".")
    return says_optional or (key == "additionalProperties" and isinstance(value, bool))


_SCHEMAS_KEPT = 200
_LEAST_RESULT_CHARS = 1_000
"""Room of a result even if those before it took all there was for their reply."""


class Effect(StrEnum):
    """The most that a call can do. The policy decides by it, and READ calls may run in parallel."""

    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"
    NETWORK = "network"


class ToolArguments(BaseModel):
    """Base of argument models. A subclass's docstring is the description that the model reads."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


LONGEST_TIMEOUT_S = 3600


def _is_limit(value: float) -> float:
    # Bounds in the schema would cost more tokens than they are worth.
    if not 0 < value <= LONGEST_TIMEOUT_S:
        raise ValueError(f"it must be more than 0 and at most {LONGEST_TIMEOUT_S} (seconds)")
    return value


Seconds = Annotated[float, AfterValidator(_is_limit)]
"""A time limit as an argument."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool that succeeded; one that fails raises ToolError. `output` is for the
    model, `data` (exit codes, digests, diffs) for records and screens."""

    output: str = ""
    images: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    is_whole: bool = False
    """Nothing was cut from `output`, which the model is told if it is long."""


def with_notes(output: str, *notes: str) -> str:
    """Return a program's output, followed by each non-empty note on its own line."""
    lines = [output.rstrip("\n"), *(f"[{note}]" for note in notes if note)]
    return "\n".join(filter(None, lines))


@dataclass(slots=True)
class ToolContext:
    """What tools work with. `live_output` receives text for the screen as it arrives."""

    workspace: Path
    outputs: OutputFolder
    """Where full outputs are kept."""
    files: FileTracker
    shell: Shell
    python: PythonInterpreter
    sandbox: Sandbox | None = None
    """The sandbox that contains commands."""
    git: GitWatch | None = None
    live_output: Callable[[str], None] = lambda text: None
    output_chars: int = 30_000
    """Most characters of one output, by the settings."""
    result_chars: int = sys.maxsize
    """Most characters of one result, by what room the model's window has."""
    left_chars: int = sys.maxsize
    """Characters that the results of one reply may still have."""
    room_chars: int = sys.maxsize
    """Most characters of the result being made, by both."""
    image_limits: ImageLimits = field(default_factory=ImageLimits)
    past: Sequence[Event] = ()
    """All events of the session, including the newest."""
    partial: ToolResult | None = None
    """What an interrupted tool had done so far; the tool sets it before the interrupt
    propagates."""
    notes: Notes | None = None
    browser: Browser | None = None
    search_sessions: Callable[[str], str] | None = None
    """Returns excerpts of earlier sessions for a query; raises UsageError if it has no words."""
    page_limits: PageLimits = field(default_factory=PageLimits)
    ask_editor: Callable[[str], str] | None = None
    """Sends a prompt to the model that merges edits and returns its answer; raises LLMError."""
    ask_user: Callable[[str, Sequence[str]], str | None] | None = None
    """Asks the user a question with these options and returns the answer, or None if there is
    none. If this itself is None, nobody can be asked."""
    judge_url: JudgeURL = lambda url: "deny"
    is_kept: Callable[[Path, bytes], bool] = lambda path, data: False
    """Whether the newest checkpoint holds the file at this path with this content."""

    @property
    def max_output_chars(self) -> int:
        return min(self.output_chars, self.room_chars)

    def limit_results(self, one: int, together: int) -> None:
        """Keep each result of the next reply to `one`, and all of them to `together` characters."""
        self.result_chars, self.left_chars = one, together
        self.share(1)

    def share(self, calls: int) -> None:
        """Give each of so many `calls` its room, of what the results of a reply have left."""
        left = max(self.left_chars // calls, _LEAST_RESULT_CHARS)
        self.room_chars = min(self.result_chars, left)
        self.shell.max_chars = self.python.max_chars = self.max_output_chars


A = TypeVar("A", bound=ToolArguments)


@dataclass(frozen=True, slots=True)
class Tool(Generic[A]):
    """`run` does the work on validated arguments; it may raise ToolError with a message for the
    model. `to_action` and `to_observation` make the events that record the call and its success. As
    a rule they are the events' classes: they take the arguments by name, or the result as
    `content`, `image_urls` if there are any, and the values in `data`."""

    name: str
    arguments: type[A]
    effect: Effect
    run: Callable[[A, ToolContext], ToolResult]
    to_action: Callable[..., Action] | None = None
    to_observation: Callable[..., Observation] | None = None
    switch: str = ""
    """The setting that offers the tool, such as tools.enable_editor; "" means it is always
    offered."""
    rules: Pattern = ""
    """The name of the argument that the patterns of its policy rules match."""
    parallel: bool = True
    """Whether its calls may run beside others, provided the tool only reads."""
    offered: bool = True
    """Whether the model knows of it from the start; otherwise another tool tells the model about
    it."""
    about: str = ""
    """Text that follows the docstring in its description, where that depends on the session."""
    untold: frozenset[str] = frozenset()
    """Arguments that the model is not told of, since they are of no use in the session."""
    given_schema: ToolSchema | None = None
    """Its schema, if that is not made of `arguments`."""

    def __post_init__(self) -> None:
        """Raise ValueError for `rules` that could not judge any call."""
        if self.rules and self.rules not in self.arguments.model_fields:
            raise ValueError(f"rules of {self.name} are about {self.rules!r}, not an argument")
        if self.rules == "command" and self.to_action is None:
            raise ValueError(f"{self.name} runs commands, and needs an action that says which")

    @property
    def description(self) -> str:
        return " ".join(f"{self.arguments.__doc__ or ''} {self.about}".split())

    def schema(self) -> ToolSchema:
        if self.given_schema is not None:
            return self.given_schema
        return ToolSchema(self.name, self.description, self._told_parameters())

    def _told_parameters(self) -> dict[str, Any]:
        schema = _parameters(self.arguments)
        if not self.untold:
            return schema
        told = {k: v for k, v in schema["properties"].items() if k not in self.untold}
        return {**schema, "properties": told}

    def action(self, arguments: A, raw_arguments: str) -> Action:
        if self.to_action is not None:
            return self.to_action(**dict(arguments))
        about = getattr(arguments, self.rules) if self.rules else None
        judged = {} if about is None else {self.rules: str(about)}
        return ToolCallAction(name=self.name, raw_arguments=raw_arguments, **judged)

    def observation(self, result: ToolResult) -> Observation:
        """Return the observation. Raises ValueError or TypeError if its `data` can't be
        recorded."""
        if self.to_observation is not None:
            images = {"image_urls": result.images} if result.images else {}
            return self.to_observation(content=result.output, **images, **result.data)
        # An event that can't be written would end the turn without a word about what was done.
        data = to_jsonable_python(dict(result.data))
        return ToolResultObservation(
            name=self.name, content=result.output, image_urls=result.images, data=data
        )


@lru_cache(maxsize=_SCHEMAS_KEPT)
def _parameters(arguments: type[BaseModel]) -> dict[str, Any]:
    schema = arguments.model_json_schema()
    schema.pop("description", None)  # The tool has it already.
    return parameters(schema, terse=True)
