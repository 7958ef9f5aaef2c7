"""Tools of outside packages, whatever they do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentcli.events.actions import ToolCallAction
from agentcli.messages import ToolCall
from agentcli.tools.base import Effect, Tool, ToolArguments, ToolResult
from agentcli.tools.registry import ToolRegistry


class Count(ToolArguments):
    """Count."""

    path: Path | None = None


def counts(result: ToolResult = ToolResult("3"), **options: Any) -> Tool[Count]:  # noqa: B008
    return Tool("count", Count, Effect.READ, lambda arguments, context: result, **options)


def called(tool, context, arguments="{}"):
    tools = ToolRegistry([tool], context)
    action = tools.parse(ToolCall("a", "count", arguments))
    return action, tools.execute(action)


@pytest.mark.parametrize("rules", ["url", "command"])
def test_rules_are_about_an_argument(rules):
    with pytest.raises(ValueError, match=f"rules of count are about '{rules}'"):
        counts(rules=rules)


def test_a_tool_that_runs_commands_says_which():
    class Run(ToolArguments):
        """Run."""

        command: str

    with pytest.raises(ValueError, match="needs an action"):
        Tool("run", Run, Effect.EXECUTE, lambda arguments, context: ToolResult(), rules="command")


@pytest.mark.parametrize(("given", "path"), [("{}", None), ('{"path": "a/b"}', "a/b")])
def test_what_rules_are_about_may_be_left_out_and_of_any_type(ctx, given, path):
    action, observation = called(counts(rules="path"), ctx, given)
    assert isinstance(action, ToolCallAction)
    assert action.path == path
    assert observation.content == "3"


def test_data_are_recorded_as_json(ctx):
    data = {1: (Path("a"), 2.5)}
    _, observation = called(counts(ToolResult("3", data=data)), ctx)
    assert observation.data == {"1": ["a", 2.5]}


@pytest.mark.parametrize("data", [{"file": object()}, {"b": b"\xff"}, 3])
def test_a_result_that_can_not_be_recorded_is_told(ctx, data):
    _, observation = called(counts(ToolResult("3", data=data)), ctx)
    assert observation.error_id == "tool_failed"
    assert observation.content.startswith("count failed: ")
