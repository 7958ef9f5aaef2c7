"""Makes tools of plain functions, by their type hints and docstrings."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from pydantic import Field, create_model
from pydantic.errors import PydanticUserError
from pydantic_core import to_jsonable_python

from agentcli.errors import UsageError
from agentcli.tools.base import Effect, Tool, ToolArguments, ToolContext, ToolResult

F = TypeVar("F", bound=Callable[..., Any])
ProgramTool = Callable[..., Any] | Tool[Any]
_NAME = re.compile(r"[A-Za-z_]\w{0,63}", re.ASCII)
_DECLARED = "__agent_effect__"
_COLLECTED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def tool(effect: Literal["read", "write", "execute", "network"]) -> Callable[[F], F]:
    """Declare what a function can do at most; the default is `execute`. The policy decides by it: a
    function that only reads runs without asking and beside other such calls; others are asked
    about unless a rule allows them by name. Raises UsageError for another word."""
    if effect not in tuple(Effect):
        raise UsageError(f"tool() takes one of {', '.join(Effect)}, not {effect!r}")

    def declare(function: F) -> F:
        setattr(function, _DECLARED, Effect(effect))
        return function

    return declare


def as_tools(given: Sequence[ProgramTool]) -> tuple[Tool[Any], ...]:
    """Make tools of functions. Raises UsageError for a function that can't be one, and for two of
    the same name."""
    tools = tuple(each if isinstance(each, Tool) else _as_tool(each) for each in given)
    names = [each.name for each in tools]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"two tools are named {twice!r}")
    return tools


def _as_tool(function: Callable[..., Any]) -> Tool[Any]:
    name = getattr(function, "__name__", "")
    if not _NAME.fullmatch(name):
        raise UsageError(f"{function!r} can't be a tool: it has no name that a model can call")
    described = inspect.cleandoc(function.__doc__ or "")
    if not described:
        raise _no_tool(name, "it has no docstring, which tells the model what it does")
    if inspect.iscoroutinefunction(function):
        raise _no_tool(name, "it is async; give a plain function")
    arguments, wants_context = _arguments(name, function, described)

    def run(given: ToolArguments, context: ToolContext) -> ToolResult:
        values = {field: getattr(given, field) for field in arguments.model_fields}
        if wants_context:
            values[wants_context] = context
        return _result(function(**values))

    effect = getattr(function, _DECLARED, Effect.EXECUTE)
    return Tool(name, arguments, effect, run, parallel=effect is Effect.READ)


def _arguments(
    name: str, function: Callable[..., Any], described: str
) -> tuple[type[ToolArguments], str]:
    """Return the model of the arguments, and the parameter that takes the session's context, if
    any."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise _no_tool(name, f"its type hints can't be read: {error}") from error
    fields: dict[str, Any] = {}
    wants_context = ""
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in _COLLECTED or parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise _no_tool(name, f"its parameter {parameter} can't be given by name")
        if parameter.name not in hints:
            raise _no_tool(name, f"its parameter {parameter.name} has no type hint")
        if hints[parameter.name] is ToolContext:
            wants_context = parameter.name
            continue
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[parameter.name] = (_described(hints[parameter.name]), default)
    try:
        made = create_model(name, __base__=ToolArguments, __doc__=described, **fields)
        made.model_json_schema()
    except (PydanticUserError, NameError, ValueError, TypeError) as error:
        raise _no_tool(name, f"its arguments have no JSON form: {error}") from error
    return made, wants_context


def _described(hint: Any) -> Any:
    """Turn text in `Annotated` into the argument's description."""
    if get_origin(hint) is not Annotated:
        return hint
    kind, *notes = get_args(hint)
    fields = [Field(description=note) if isinstance(note, str) else note for note in notes]
    return Annotated[(kind, *fields)]


def _result(given: Any) -> ToolResult:
    if isinstance(given, ToolResult):
        return given
    if given is None:
        return ToolResult("done")
    if isinstance(given, str):
        return ToolResult(given)
    return ToolResult(json.dumps(to_jsonable_python(given), ensure_ascii=False))


def _no_tool(name: str, why: str) -> UsageError:
    return UsageError(f"{name} can't be a tool: {why}")
