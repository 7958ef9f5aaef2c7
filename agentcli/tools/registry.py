"""The tools of a run: turning tool calls into Actions, and Actions into Observations."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from agentcli.errors import ToolError, TurnInterrupted
from agentcli.events import Action, Observation, ToolCallMetadata
from agentcli.events.actions import CmdRunAction, ToolCallAction
from agentcli.events.observations import ErrorObservation
from agentcli.extensions import ExtensionPoint
from agentcli.messages import ImageLimits, ToolCall, ToolSchema
from agentcli.plain_json import mended
from agentcli.security.policy.rule import Pattern
from agentcli.tools.base import Effect, Tool, ToolArguments, ToolContext, ToolResult, with_notes
from agentcli.tools.other_names import translated
from agentcli.tools.patches import BEGIN_PATCH
from agentcli.workspace.images import ImageFault, fit_data_url, image_name

MAX_PARALLEL_CALLS = 8
TELL_SIZE_FROM = 10_000
"""A whole result of more characters than this ends with a note of its length."""

_NAME = re.compile(r"\w+")

log = logging.getLogger(__name__)


TOOLS: ExtensionPoint[Tool[Any]] = ExtensionPoint("agentcli.tools", "TOOL", "agentcli.tools", Tool)


@cache
def rule_patterns() -> Mapping[str, Pattern]:
    """Return, by tool name, what the patterns of policy rules match."""
    return {name: tool.rules for name, tool in TOOLS.all().items()}


class ToolRegistry:
    """The tools of a session. `later` finds one that came to be during the session. Raises
    ValueError when two tools have the same name."""

    def __init__(
        self,
        tools: Iterable[Tool[Any]],
        context: ToolContext,
        later: Callable[[str], Tool[Any] | None] = lambda name: None,
    ) -> None:
        self._tools: dict[str, Tool[Any]] = {}
        for tool in tools:
            if self._tools.setdefault(tool.name, tool) is not tool:
                raise ValueError(f"two tools are named {tool.name!r}")
        self._context = context
        self._later = later
        self._permitted: Path | None = None

    def schemas(self) -> tuple[ToolSchema, ...]:
        return tuple(tool.schema() for tool in self._tools.values() if tool.offered)

    def has(self, name: str) -> bool:
        return name in self._tools

    def effect(self, action: Action) -> Effect:
        """Return what carrying out `action` can do; READ for calls that can't be run at all."""
        tool = self._tool_of(action)
        return tool.effect if tool else Effect.READ

    def parse(self, call: ToolCall) -> Action:
        """Return the Action that a call stands for. A call that can't be understood becomes a
        ToolCallAction whose `error` says what was wrong and what is valid."""
        name, raw, before = call.name, call.arguments, call.arguments_before
        written: dict[str, str] = {}
        try:
            try:
                if BEGIN_PATCH in raw:
                    raise ToolError("It may be a patch, which a valid call of bash can be as well.")
                tool, arguments = self._validate(name, raw)
            except ToolError:
                raw, before = mended(raw), raw
                name, own = self._in_own_terms(name, raw)
                if (name, own) != (call.name, raw):
                    written = {"written_name": call.name, "written_arguments": raw}
                raw = own
                tool, arguments = self._validate(name, raw)
            action = tool.action(arguments, raw)
        except ToolError as error:
            raw, before = call.arguments_before or call.arguments, None
            name, written = call.name, {}
            action = ToolCallAction(name=call.name, raw_arguments=raw, error=error.message)
        metadata = ToolCallMetadata(
            function_name=name,
            tool_call_id=call.id,
            raw_arguments=raw,
            arguments_before=before,
            **written,
        )
        return action.model_copy(update={"tool_call_metadata": metadata})

    def _in_own_terms(self, name: str, raw: str) -> tuple[str, str]:
        """Return the name and arguments of a call that may be in the terms of other programs."""
        try:
            values = json.loads(raw or "{}")
        except (ValueError, RecursionError):
            return name, raw
        if not isinstance(values, dict):
            return name, raw
        own_name, own = translated(name, dict(values), self._tools)
        same = own == values
        return own_name, raw if same else json.dumps(own, ensure_ascii=False)

    def execute(self, action: Action) -> Observation:
        """Carry out `action`; a mistake of the model is returned as an ErrorObservation."""
        if isinstance(action, ToolCallAction) and action.error is not None:
            return ErrorObservation(
                error_id="invalid_tool_call", content=action.error, cause=action.id
            )
        metadata = action.tool_call_metadata
        assert metadata is not None, "only actions that stand for a tool call can be executed"
        try:
            tool, arguments = self._validate(metadata.function_name, metadata.raw_arguments)
            result = _sized(tool.run(arguments, self._context))
            observation = tool.observation(_fitted(result, self._context.image_limits))
        except ToolError as error:
            return ErrorObservation(error_id=error.error_id, content=error.message, cause=action.id)
        except Exception as error:
            # A tool may be anyone's code, so the model is told of whatever goes wrong in it.
            log.exception("%s failed", metadata.function_name)
            told = f"{metadata.function_name} failed: {type(error).__name__}: {error}"
            return ErrorObservation(error_id="tool_failed", content=told, cause=action.id)
        return observation.model_copy(update={"cause": action.id})

    def execute_all(
        self, actions: Sequence[Action], live_output: Callable[[int, str], None]
    ) -> Iterator[Observation]:
        """Yield observations in the order of `actions`. If all are read-only, they run in parallel;
        otherwise each runs alone, and its live output is tagged with the action's id."""
        if len(actions) > 1 and all(self.runs_beside_others(action) for action in actions):
            self._context.share(len(actions))
            for observation in self._execute_beside_each_other(actions):
                self._context.left_chars -= len(observation.content)
                yield observation
            return
        for action in actions:
            self._context.share(1)
            for observation in self._execute_alone(action, live_output):
                self._context.left_chars -= len(observation.content)
                yield observation

    def _execute_beside_each_other(self, actions: Sequence[Action]) -> Iterator[Observation]:
        pool = ThreadPoolExecutor(min(len(actions), MAX_PARALLEL_CALLS))
        try:
            yield from pool.map(self.execute, actions)
        finally:
            # After an interrupt nobody waits for searches that still run; they change nothing.
            pool.shutdown(wait=False, cancel_futures=True)

    def _execute_alone(
        self, action: Action, live_output: Callable[[int, str], None]
    ) -> Iterator[Observation]:
        """Yield one observation; after an interrupt, that of the partial result, then re-raise."""
        context = self._context
        context.partial = None
        context.live_output = lambda text: live_output(action.id, text)
        permitted, self._permitted = self._permitted, None
        permission = context.files.guard.permitting(permitted) if permitted else nullcontext()
        try:
            with permission, self._git_guarded(action, permitted):
                observation = self.execute(action)
            yield self._checked(action, observation)
        except TurnInterrupted:
            metadata = action.tool_call_metadata
            if context.partial is not None and metadata is not None:
                partial = self._tools[metadata.function_name].observation(context.partial)
                yield self._checked(action, partial.model_copy(update={"cause": action.id}))
            raise

    def _git_guarded(self, action: Action, permitted: Path | None) -> AbstractContextManager[None]:
        """Only actions that a user let out of the access scope may change what git executes."""
        watch = self._context.git
        if watch is None:
            return nullcontext()
        if permitted or (isinstance(action, CmdRunAction) and action.unsandboxed):
            return watch.lenient()
        if self.effect(action) is Effect.EXECUTE:
            watch.begin()
        return nullcontext()

    def _checked(self, action: Action, observation: Observation) -> Observation:
        """Add to `observation` which of git's settings and hooks were changed and put right."""
        watch = self._context.git
        if watch is None or self.effect(action) is not Effect.EXECUTE:
            return observation
        told = watch.check()
        if not told:
            return observation
        content = f"{observation.content.rstrip()}\n{told}".lstrip("\n")
        return observation.model_copy(update={"content": content})

    def permit(self, path: str) -> None:
        """Let the next call that runs alone write this real path, whatever the access scope is."""
        self._permitted = Path(path)

    def runs_beside_others(self, action: Action) -> bool:
        tool = self._tool_of(action)
        return tool is not None and tool.parallel and tool.effect is Effect.READ

    def _tool_of(self, action: Action) -> Tool[Any] | None:
        """Return the tool that carries out `action`; None for a call that can't be run at all."""
        metadata = action.tool_call_metadata
        if metadata is None or (isinstance(action, ToolCallAction) and action.error is not None):
            return None
        return self._tools.get(metadata.function_name)

    def _validate(self, name: str, raw: str) -> tuple[Tool[Any], ToolArguments]:
        tool = self._tools.get(name) or self._later(name)
        if tool is None:
            known = ", ".join(tool.name for tool in self._tools.values() if tool.offered)
            fault = f"There is no tool {name!r}" if name else "This call can't be read"
            raise ToolError(f"{fault}. The tools are: {known}.")
        self._tools.setdefault(name, tool)
        try:
            values = json.loads(raw or "{}")
        except (ValueError, RecursionError) as error:
            raise ToolError(
                f"The arguments of {name} are not valid JSON: {error}. The call was not run."
            ) from error
        if not isinstance(values, dict):
            raise ToolError(f"The arguments of {name} must be a JSON object.")
        try:
            return tool, tool.arguments.model_validate(values)
        except ValidationError as error:
            raise ToolError(_explain(tool, error)) from error


def _sized(result: ToolResult) -> ToolResult:
    """Add a note on the size to a whole result so long that it burdens every later request. One
    that was cut says so itself."""
    size = len(result.output)
    if size <= TELL_SIZE_FROM or not result.is_whole:
        return result
    return replace(result, output=f"{result.output}\n[complete: {size:,} characters]")


def _fitted(result: ToolResult, limits: ImageLimits) -> ToolResult:
    """Scale images down to what the model can see, and add notes about what was changed."""
    images: list[str] = []
    notes: list[str] = []
    for number, url in enumerate(result.images, 1):
        which = image_name(number, len(result.images))
        try:
            image = fit_data_url(url, limits)
        except ImageFault as fault:
            notes.append(f"{which} is not shown: it {fault}")
            continue
        images.append(image.url)
        if image.note:
            notes.append(f"{which}: {image.note}")
    if not result.images:
        return result
    return replace(result, output=with_notes(result.output, *notes), images=tuple(images))


def _explain(tool: Tool[Any], error: ValidationError) -> str:
    faults = "; ".join(map(_fault, error.errors()[:5]))
    fields = ", ".join(
        name + ("" if info.is_required() else " (optional)")
        for name, info in tool.arguments.model_fields.items()
    )
    return f"{tool.name} was called wrongly: {faults}. Its arguments are: {fields}."


def _fault(fault: ErrorDetails) -> str:
    """Say what is wrong with which argument. Parts of its location that are not a name or number
    only say how the schema got there, and are left out."""
    place = ".".join(str(part) for part in fault["loc"] if _NAME.fullmatch(str(part)))
    said = fault["msg"]
    if fault["type"] == "missing":
        said = "is missing"
    elif fault["type"] == "extra_forbidden":
        said = "is not one of its arguments"
    elif said.startswith("Input should "):
        said = said.removeprefix("Input ")
    else:
        # An error that a tool's own validator worded.
        return ": ".join(filter(None, (place, said.removeprefix("Value error, "))))
    return f"{place} {said}".lstrip()
