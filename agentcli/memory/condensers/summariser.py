"""What condensers that ask a model have in common: the question, the refusals, the way without."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentcli.errors import LLMError
from agentcli.events import Event
from agentcli.events.actions import CondensationAction
from agentcli.memory.compaction_cost import SUMMARY_TOKENS
from agentcli.memory.condensers.base import (
    Options,
    droppable,
    first_forgotten,
    forget,
    oldest_steps,
)
from agentcli.memory.projection import clip
from agentcli.memory.summary import body_of, framed, plain_summary, told, with_known_ids
from agentcli.memory.view import Step, View, ids_of, speaks
from agentcli.messages import FinishReason, Message, Reply, Request, ToolChoice, ToolSchema

MAX_SUMMARY_CHARS = 24_000
MAX_OUTPUT_TOKENS = 8_192
_CHARS_PER_TOKEN = 3
_PROMPT_SHARE = 0.6
"""Of the asked model's window that events may fill; the rest is for instructions and the answer."""
_SHARES = (1.0, 0.3, 0.1, 0.03)
log = logging.getLogger(__name__)


class Unusable(Exception):
    """The model answered, but not with what was asked for."""


class PutOff(Exception):
    """Nothing is to be condensed now, so no model is to be paid for it."""


@dataclass(frozen=True)
class Conversation:
    """With the model that helps to make `view` shorter."""

    options: Options
    view: View

    def ask(self, system: str, text: str, tools: tuple[ToolSchema, ...] = ()) -> Reply:
        """A usable reply. Raises LLMError, Unusable and PutOff."""
        if self.options.ask is None:
            raise Unusable("there is no model to ask")
        if not self.view.permit():
            raise PutOff
        reply = self.options.ask(
            Request(
                messages=(Message.system_message(system), Message.user_message(text)),
                tools=tools,
                tool_choice=ToolChoice.REQUIRED if tools else ToolChoice.NONE,
                max_output_tokens=MAX_OUTPUT_TOKENS,
                estimated_tokens=(len(system) + len(text)) // _CHARS_PER_TOKEN,
            ),
            self.view.paid_usd,
        )
        self.view.replies.append(reply)
        if reply.finish_reason not in (FinishReason.STOP, FinishReason.TOOL_CALLS):
            raise Unusable(f"the summary ended with {reply.finish_reason}")
        if tools and not reply.tool_calls:
            raise Unusable("the model wrote text in place of the call it was asked for")
        if not tools and reply.tool_calls:
            raise Unusable("the model called tools in place of writing a summary")
        if not tools and not reply.text.strip():
            raise Unusable("the summary was empty")
        return reply


Write = Callable[[View, Conversation, Sequence[Event]], str]
"""Has the model write the body of a summary of these events. Raises LLMError and Unusable."""


@dataclass(frozen=True)
class Summarising:
    """Sums up the oldest steps when the window is to be shorter, or holds more than `max_size`
    events (0: however many)."""

    options: Options
    write: Write
    max_size: int

    def condense(self, view: View) -> CondensationAction | None:
        crowded = 0 < self.max_size < view.count
        if not (view.due or crowded):
            return None
        gone = self._gone(view, crowded)
        return summed_up(view, gone, self.options, self.write) if gone else None

    def _gone(self, view: View, crowded: bool) -> list[Step]:
        keep = self.options.keep_first
        gone = oldest_steps(view, view.target() - SUMMARY_TOKENS, keep) if view.due else []
        if crowded:
            excess = view.count - self.max_size // 2
            by_count = oldest_until(view, excess, keep)
            gone = max(gone, by_count, key=len)
        return gone


def unaided() -> Summarising:
    """Sums up without a model."""

    def nobody(view: View, conversation: Conversation, events: Sequence[Event]) -> str:
        raise Unusable("there is no model to ask")

    return Summarising(Options(), nobody, max_size=0)


def oldest_until(view: View, excess: int, keep_first: int) -> list[Step]:
    """The oldest steps that hold `excess` of the events that speak to the model."""
    speaking = {event.id for event in view.speaking}
    gone: list[Step] = []
    for step in droppable(view, keep_first):
        if excess <= 0:
            break
        gone.append(step)
        excess -= sum(event_id in speaking for event_id in step.event_ids)
    return gone


def summed_up(view: View, gone: list[Step], options: Options, write: Write) -> CondensationAction:
    """Steps forgotten under a summary that `write` has the model make; under one made without a
    model when that fails, or failed less than the cool-down ago."""
    first, last = first_forgotten(view, gone)
    going = ids_of(gone)
    events = [view.original(event_id) for event_id in sorted(going)]
    events = [event for event in events if speaks(event)]
    conversation = Conversation(options, view)
    error = ""
    text = ""
    if options.ask is not None and not _cooling(view, options):
        try:
            text = _checked(view, write(view, conversation, events), going, (first, last))
        except (LLMError, Unusable) as failure:
            error = str(failure)
            log.warning("the summariser failed: %s", error)
    how = "summed up" if text else "summed up without a model"
    text = text or plain_summary(view, events, first, last)
    action = forget(view, gone, text, f"{view.decision.reason or 'many events'}; {how}")
    return action.model_copy(update={"summariser_error": error[:300]})


def _checked(view: View, body: str, going: set[int], span: tuple[int, int]) -> str:
    """The framed summary. Raises Unusable when it would save nothing."""
    text = framed(view, with_known_ids(body, range(span[1] + 1)), *span)
    gone_tokens = sum(view.sizes[event_id] for event_id in going)
    gone_tokens += sum(view.sizes[summary.id] for summary in view.summaries)
    if len(body) > MAX_SUMMARY_CHARS or len(text) / view.bytes_per_token >= gone_tokens:
        raise Unusable("the summary was too long to save anything")
    return text


def _cooling(view: View, options: Options) -> bool:
    if view.failed_at is None or view.now is None:
        return False
    return (view.now - view.failed_at).total_seconds() < options.cooldown_s


def material(view: View, events: Sequence[Event], options: Options) -> str:
    """What the model is to sum up: the summary so far, the focus, and the events, each cut to the
    most characters that the settings allow and the model's window has room for."""
    parts = [f"The summary so far:\n{body_of(summary)}" for summary in view.summaries]
    asked = "\n".join(told(message, 2_000) for message in view.said_by_user[-8:])
    parts.append(f"What the user said (it stays visible; for context):\n{asked}")
    if view.focus:
        parts.append(f"What matters most now: {view.focus}")
    room = int(options.window() * _PROMPT_SHARE) * _CHARS_PER_TOKEN - sum(map(len, parts))
    for share in _SHARES:
        most = max(int(options.max_event_chars * share), 200)
        lines = "\n".join(told(event, most) for event in events)
        if len(lines) <= room:
            break
    parts.append(f"The events to sum up:\n{clip(lines, max(room, 2_000))}")
    return "\n\n".join(parts)
