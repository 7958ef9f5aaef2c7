from __future__ import annotations

from typing import Any, cast

import pytest

from agentcli.tools.base import Tool, ToolContext, ToolResult
from agentcli.workspace.private import OutputFolder
from agentcli.workspace.tracking import FileTracker


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def ctx(workspace):
    nothing = cast(Any, None)
    outputs = OutputFolder(workspace.parent / "outputs")
    return ToolContext(workspace, outputs, FileTracker(workspace), shell=nothing, python=nothing)


@pytest.fixture
def use(ctx):
    """`use(TOOL, path="a.txt")` calls a tool as the model would."""

    def call(tool: Tool, **arguments: Any) -> ToolResult:
        return tool.run(tool.arguments.model_validate(arguments), ctx)

    return call
