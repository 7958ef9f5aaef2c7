"""ask: put a question to the user."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from agentcli.events.actions import AskUserAction
from agentcli.events.observations import UserAnswerObservation
from agentcli.tools.base import Effect, Tool, ToolArguments, ToolContext, ToolResult

MOST_OPTIONS = 9
"""Each option is chosen by a digit."""


def _few(options: list[str]) -> list[str]:
    if len(options) > MOST_OPTIONS:
        raise ValueError(f"at most {MOST_OPTIONS} options can be chosen from")
    return options


class Arguments(ToolArguments):
    """Ask the user what only they can decide; they choose an option or write."""

    question: str
    options: Annotated[list[str], AfterValidator(_few)] = []


def run(args: Arguments, ctx: ToolContext) -> ToolResult:
    if ctx.ask_user is None:
        return ToolResult(
            "Nobody can be asked: decide by yourself, and say at the end what you assumed."
        )
    answer = ctx.ask_user(args.question, args.options)
    if answer is None:
        return ToolResult(
            "The user did not answer: go by what they say next, if they say anything."
        )
    return ToolResult(f"The user answered: {answer}", data={"answer": answer})


TOOL = Tool(
    "ask",
    Arguments,
    Effect.READ,
    run,
    AskUserAction,
    UserAnswerObservation,
    switch="tools.enable_ask",
    parallel=False,
)
