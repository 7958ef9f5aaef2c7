"""session_search: search what was said and done in earlier sessions."""

from __future__ import annotations

from agentcli.errors import ToolError, UsageError
from agentcli.events.actions import RecallAction
from agentcli.events.observations import RecallObservation
from agentcli.tools.base import Effect, Tool, ToolArguments, ToolContext, ToolResult


class Arguments(ToolArguments):
    """Search earlier sessions for words (all must occur), "phrases", beginnings*."""

    query: str


def run(args: Arguments, ctx: ToolContext) -> ToolResult:
    if ctx.search_sessions is None:
        raise ToolError("Earlier sessions can't be searched.", error_id="search_off")
    try:
        return ToolResult(ctx.search_sessions(args.query), data={"recall_type": "session"})
    except UsageError as error:
        raise ToolError(f"{error.message}. {error.hint}", error_id="bad_query") from error


TOOL = Tool(
    name="session_search",
    arguments=Arguments,
    effect=Effect.READ,
    switch="knowledge.session_search",
    run=run,
    to_action=lambda query: RecallAction(recall_type="session", query=query),
    to_observation=RecallObservation,
)
