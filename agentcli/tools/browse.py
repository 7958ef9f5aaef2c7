"""browse: open a page in the session's browser."""

from __future__ import annotations

from agentcli.events.actions import BrowseInteractiveAction
from agentcli.events.observations import BrowserOutputObservation
from agentcli.tools.base import Effect, Tool, ToolArguments, ToolContext, ToolResult
from agentcli.tools.browse_interactive import checked, perform


class Arguments(ToolArguments):
    """Open a page in a real browser, such as one that needs JavaScript. Shows its elements with
    their numbers, which browse_interactive works on."""

    url: str


def run(args: Arguments, ctx: ToolContext) -> ToolResult:
    return perform([{"do": "goto", "value": args.url}], 60, ctx)


def _action(url: str) -> BrowseInteractiveAction:
    return BrowseInteractiveAction(steps=({"do": "goto", "value": checked(url)},))


TOOL = Tool(
    name="browse",
    arguments=Arguments,
    effect=Effect.NETWORK,
    switch="tools.enable_browsing",
    rules="url",
    run=run,
    to_action=_action,
    to_observation=BrowserOutputObservation,
)
