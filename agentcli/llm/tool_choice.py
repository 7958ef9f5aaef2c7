"""Making replies follow their request's tool choice, which not every server enforces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from agentcli.errors import LLMError, LLMErrorKind
from agentcli.events import Progress
from agentcli.events.progress import Notice, ReplyAbandoned
from agentcli.messages import FinishReason, Message, Reply, Request, ToolChoice

_CORRECTION = "Answer with a tool call, not with text: one of the tools must be called."
_COMPLETE = (FinishReason.STOP, FinishReason.TOOL_CALLS)


def enforce_tool_choice(
    request: Request, ask: Callable[[Request], Reply], notify: Callable[[Progress], None]
) -> Reply:
    """Return the reply of `ask`: without its calls where none are allowed, and asked for once more
    where a required call is missing; then the usage of both is counted. Raises LLMError when it is
    still missing."""
    reply = ask(request)
    if request.tool_choice is ToolChoice.NONE and reply.tool_calls:
        names = ", ".join(call.name for call in reply.tool_calls)
        notify(Notice(f"calls of {names} are ignored: none were allowed in this reply"))
        ended = reply.finish_reason is FinishReason.TOOL_CALLS
        return replace(
            reply,
            tool_calls=(),
            finish_reason=FinishReason.STOP if ended else reply.finish_reason,
            provider_data=None,
        )
    if request.tool_choice is not ToolChoice.REQUIRED or _is_acceptable(reply):
        return reply
    notify(ReplyAbandoned("a tool call was required"))
    said = [Message.assistant_message(reply.text)] if reply.text.strip() else []
    corrected = [*request.messages, *said, Message.user_message(_CORRECTION)]
    second = ask(replace(request, messages=corrected))
    if not _is_acceptable(second):
        raise LLMError(LLMErrorKind.BAD_RESPONSE, f"{second.model} calls no tool, although it must")
    costs = (reply.cost_usd, second.cost_usd)
    return replace(
        second,
        usage=reply.usage + second.usage,
        latency_s=reply.latency_s + second.latency_s,
        cost_usd=None if costs[0] is None or costs[1] is None else costs[0] + costs[1],
    )


def _is_acceptable(reply: Reply) -> bool:
    """Whether the reply has calls, or ended in a way that asking again would not change."""
    return bool(reply.tool_calls) or reply.finish_reason not in _COMPLETE
