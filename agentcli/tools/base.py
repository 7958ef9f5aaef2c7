"""What a tool is. Each file in this folder that defines `TOOL` is one, named as the file; so is
what outside packages enter in the group `agentcli.tools`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict
from pydantic_core import to_jsonable_python

from agentcli.events import Action, Event, Observation
from agentcli.events.actions import ToolCallAction
from agentcli.events.observations import ToolResultObservation
from agentcli.messages import ImageLimits, ToolSchema
from agentcli.security.policy.rule import Pattern
from agentcli.web.page import JudgeURL, PageLimits

if TYPE_CHECKING:
    from agentcli.browser.browser import Browser
    from agentcli.files.output_folder import OutputFolder
    from agentcli.files.tracking import FileTracker
    from agentcli.git.watch import GitWatch
    from agentcli.knowledge.notes import Notes
    from agentcli.sandbox.choosing import Sandbox
    from agentcli.shell.python import PythonInterpreter
    from agentcli.shell.shell import Shell

_SCHEMAS_KEPT = 200


class Effect(StrEnum):
    """What a call can do at most; the policy decides by it, and read-only calls may run at once."""

    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"
    NETWORK = "network"


class ToolArguments(BaseModel):
    """Base of argument models: the docstring of a subclass is the description the model reads."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


LONGEST_TIMEOUT_S = 3600


def seconds(value: float) -> float:
    """Checks a time limit: in the schema its bounds would cost more than they tell."""
    if not 0 < value <= LONGEST_TIMEOUT_S:
        raise ValueError(f"it must be more than 0 and at most {LONGEST_TIMEOUT_S} (seconds)")
    return value


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Of a tool that did its work; one that could not raises ToolError. `output` is for the model,
    `data` (exit codes, digests, diffs) for records and screens."""

    output: str = ""
    images: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)


def with_notes(output: str, *notes: str) -> str:
    """What a program put out, then each note that says something in a line of its own."""
    lines = [output.rstrip("\n"), *(f"[{note}]" for note in notes if note)]
    return "\n".join(filter(None, lines))


@dataclass(slots=True)
class ToolContext:
    """What tools work with. `live_output` takes text for the screen as it comes."""

    workspace: Path
    outputs: OutputFolder
    """Where whole outputs are kept."""
    files: FileTracker
    shell: Shell
    python: PythonInterpreter
    sandbox: Sandbox | None = None
    """Where commands are contained."""
    git: GitWatch | None = None
    live_output: Callable[[str], None] = lambda text: None
    max_output_chars: int = 30_000
    image_limits: ImageLimits = field(default_factory=ImageLimits)
    past: Sequence[Event] = ()
    """All events of the session, the newest among them."""
    partial: ToolResult | None = None
    """What a tool had when it was interrupted, set by it before the interrupt goes on."""
    notes: Notes | None = None
    browser: Browser | None = None
    search_sessions: Callable[[str], str] | None = None
    """Excerpts of earlier sessions for a query; raises UsageError for one without words."""
    page_limits: PageLimits = field(default_factory=PageLimits)
    ask_editor: Callable[[str], str] | None = None
    """The text of a model that merges edits; raises LLMError."""
    ask_person: Callable[[str, Sequence[str]], str | None] | None = None
    """What the person says to a question with these answers to choose from, None: nothing. None
    itself: nobody can be asked."""
    judge_url: JudgeURL = lambda url: "deny"


A = TypeVar("A", bound=ToolArguments)


@dataclass(frozen=True, slots=True)
class Tool(Generic[A]):
    """`run` does the work on validated arguments; it may raise ToolError for what the model should
    read. `to_action` and `to_observation` make the events that record the call and its success, as
    a rule by being their classes: they take the arguments by name, and the result as `content`,
    `image_urls` if there are any and what `data` holds."""

    name: str
    arguments: type[A]
    effect: Effect
    run: Callable[[A, ToolContext], ToolResult]
    to_action: Callable[..., Action] | None = None
    to_observation: Callable[..., Observation] | None = None
    switch: str = ""
    """The setting that says whether it is offered, as in tools.enable_editor; "": it always is."""
    rules: Pattern = ""
    """What the pattern of a rule for it is about: its argument of this name."""
    parallel: bool = True
    """Its calls may run beside others, if it only reads."""
    offered: bool = True
    """The model is told of it from the beginning; else another tool tells it."""
    about: str = ""
    """What follows the docstring in its description, where that depends on the session."""

    def __post_init__(self) -> None:
        """Raises ValueError for `rules` by which no call could be judged."""
        if self.rules and self.rules not in self.arguments.model_fields:
            raise ValueError(f"rules of {self.name} are about {self.rules!r}, no argument of it")
        if self.rules == "command" and self.to_action is None:
            raise ValueError(f"{self.name} runs commands, and needs an action that says which")

    @property
    def description(self) -> str:
        return " ".join(f"{self.arguments.__doc__ or ''} {self.about}".split())

    def schema(self) -> ToolSchema:
        return ToolSchema(self.name, self.description, _parameters(self.arguments))

    def action(self, arguments: A, raw_arguments: str) -> Action:
        if self.to_action is not None:
            return self.to_action(**dict(arguments))
        about = getattr(arguments, self.rules) if self.rules else None
        judged = {} if about is None else {self.rules: str(about)}
        return ToolCallAction(name=self.name, raw_arguments=raw_arguments, **judged)

    def observation(self, result: ToolResult) -> Observation:
        """Raises ValueError or TypeError for a result with `data` that can't be recorded."""
        if self.to_observation is not None:
            images = {"image_urls": result.images} if result.images else {}
            return self.to_observation(content=result.output, **images, **result.data)
        # An event that can't be written would end the turn, with nothing told of what was done.
        data = to_jsonable_python(dict(result.data))
        return ToolResultObservation(
            name=self.name, content=result.output, image_urls=result.images, data=data
        )


@lru_cache(maxsize=_SCHEMAS_KEPT)
def _parameters(arguments: type[BaseModel]) -> dict[str, Any]:
    schema = _plain_schema(arguments.model_json_schema())
    schema.setdefault("properties", {})
    return schema


def _plain_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """A JSON Schema without what costs tokens and tells a model nothing: titles, the description
    repeated from the tool, null alternatives, defaults that say no more than that the field may be
    left out, and that there are no other fields."""
    definitions = schema.pop("$defs", {})

    def plain(node: Any) -> Any:
        if isinstance(node, list):
            return [plain(item) for item in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            return plain(definitions[node["$ref"].rsplit("/", 1)[1]])
        if "anyOf" in node:
            options = [option for option in node["anyOf"] if option.get("type") != "null"]
            if len(options) == 1:
                node = {**{k: v for k, v in node.items() if k != "anyOf"}, **options[0]}
        return {
            key: {name: plain(sub) for name, sub in value.items()}
            if key == "properties"
            else plain(value)
            for key, value in node.items()
            if key not in ("title", "additionalProperties")
            and not (key == "default" and (not value or value == "."))
        }

    schema.pop("description", None)
    result: dict[str, Any] = plain(schema)
    return result
