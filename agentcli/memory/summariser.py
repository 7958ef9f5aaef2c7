"""What condensers that ask a model share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from agentcli.errors import LLMError
from agentcli.events import Event
from agentcli.events.actions import CondensationAction
from agentcli.memory.condensation_cost import SUMMARY_TOKENS
from agentcli.memory.condenser import Options, first_forgotten, forget, oldest_by_both
from agentcli.memory.projection import clip
from agentcli.memory.summary import body_of, framed, plain_summary, told, with_known_ids
from agentcli.memory.view import View, ids_of, is_visible_to_model
from agentcli.memory.window import reply_reserve
from agentcli.messages import FinishReason, Message, Reply, Request, ToolChoice, ToolSchema

MAX_SUMMARY_CHARS = 24_000
MAX_OUTPUT_TOKENS = 8_192
_CHARS_PER_TOKEN = 3
_PROMPT_SHARE = 0.6
"""Share of the asked model's window for what it is told; the rest is for instructions and the
answer."""
_EARLIER_SHARE = 0.4
"""Most of that for the summary so far."""
_SAID_SHARE = 0.2
"""Most of that for what the user said."""
_SAID_SHOWN = 8
_LEAST_SHARE = 0.1
"""Share of all tokens that must go for a model to be paid for a summary of it."""
_SHARES = (1.0, 0.3, 0.1, 0.03)
T = TypeVar("T")
log = logging.getLogger(__name__)


class UnusableReply(Exception):
    """The model answered, but not with what it was asked for."""


class Postponed(Exception):
    """Nothing may be condensed now, so no model must be paid for it."""


@dataclass(frozen=True)
class Conversation:
    """The exchange with the model that helps to condense `view`."""

    options: Options
    view: View

    def ask(self, system: str, text: str, tools: tuple[ToolSchema, ...] = ()) -> Reply:
        """Return a usable reply. Raises LLMError, UnusableReply and Postponed."""
        if self.options.ask is None:
            raise UnusableReply("there is no model to ask")
        if not self.view.permit():
            raise Postponed
        reply = self.options.ask(
            Request(
                messages=(Message.system_message(system), Message.user_message(text)),
                tools=tools,
                tool_choice=ToolChoice.REQUIRED if tools else ToolChoice.NONE,
                max_output_tokens=reply_reserve(self.options.window(), MAX_OUTPUT_TOKENS),
                estimated_tokens=(len(system) + len(text)) // _CHARS_PER_TOKEN,
            ),
            self.view.paid_usd,
        )
        self.view.replies.append(reply)
        if reply.finish_reason not in (FinishReason.STOP, FinishReason.TOOL_CALLS):
            raise UnusableReply(f"the summary ended with {reply.finish_reason}")
        if tools and not reply.tool_calls:
            raise UnusableReply("the model wrote text in place of the call it was asked for")
        if not tools and reply.tool_calls:
            raise UnusableReply("the model called tools in place of writing a summary")
        if not tools and not reply.text.strip():
            raise UnusableReply("the summary was empty")
        return reply

    def attempt(self, answer: Callable[[], T]) -> tuple[T | None, str]:
        """Return what `answer` makes of the model's reply, or None and what went wrong. Without a
        model, and for a while after a failure, nothing is tried."""
        if self.options.ask is None or self._cooling_down():
            return None, ""
        try:
            return answer(), ""
        except (LLMError, UnusableReply) as failure:
            log.warning("the summariser failed: %s", failure)
            return None, str(failure)[:300]

    def _cooling_down(self) -> bool:
        view = self.view
        if view.failed_at is None or view.now is None:
            return False
        return (view.now - view.failed_at).total_seconds() < self.options.settings.cooldown_s


Write = Callable[[Conversation, Sequence[Event]], str]
"""Has the model summarise these events. Raises LLMError, UnusableReply and Postponed."""


@dataclass(frozen=True)
class Summarising:
    """Replaces the oldest steps with a summary when the window must be shorter, or holds more than
    `max_size` events (0: no limit). Without a model, or if it fails, the summary is made from the
    events alone."""

    options: Options
    write: Write
    max_size: int

    def condense(self, view: View) -> CondensationAction | None:
        keep_first = self.options.settings.keep_first
        gone = oldest_by_both(view, keep_first, self.max_size, reserve=SUMMARY_TOKENS)
        if not gone:
            return None
        first, last = first_forgotten(view, gone)
        ids = ids_of(gone)
        events = list(filter(is_visible_to_model, map(view.original, sorted(ids))))
        conversation = Conversation(self.options, view)
        text, error = None, ""
        if view.forced or _tokens_of(view, ids) > view.tokens * _LEAST_SHARE:
            text, error = conversation.attempt(
                lambda: _checked(view, self.write(conversation, events), ids, (first, last))
            )
        how = "summed up" if text else "summed up without a model"
        text = text or plain_summary(view, events, first, last)
        action = forget(view, gone, text, f"{view.decision.reason or 'many events'}; {how}")
        return action.model_copy(update={"summariser_error": error})


def _checked(view: View, body: str, going: set[int], span: tuple[int, int]) -> str:
    """Return the framed summary. Raises UnusableReply if it would save nothing."""
    text = framed(view, with_known_ids(body, range(span[1] + 1)), *span)
    too_long = len(text) / view.bytes_per_token >= _tokens_of(view, going)
    if too_long or len(body) > MAX_SUMMARY_CHARS:
        raise UnusableReply("the summary was too long to save anything")
    return text


def _tokens_of(view: View, going: set[int]) -> int:
    """Return what a summary replaces, in tokens: the events `going` and earlier summaries."""
    return sum(view.sizes[event_id] for event_id in {*going, *(each.id for each in view.summaries)})


def prompt(conversation: Conversation, events: Sequence[Event]) -> str:
    """Return the text to summarise: the summary so far, the focus, and the events, each cut to what
    the settings allow and the model's window has room for."""
    view, options = conversation.view, conversation.options
    room = int(options.window() * _PROMPT_SHARE) * _CHARS_PER_TOKEN
    earlier = int(room * _EARLIER_SHARE)
    parts = [f"The summary so far:\n{clip(body_of(each), earlier)}" for each in view.summaries]
    most = min(int(room * _SAID_SHARE) // _SAID_SHOWN, 2_000)
    asked = "\n".join(told(message, most) for message in view.said_by_user[-_SAID_SHOWN:])
    parts.append(f"What the user said (it stays visible; for context):\n{asked}")
    if view.focus:
        parts.append(f"What matters most now: {view.focus}")
    room -= sum(map(len, parts))
    for share in _SHARES:
        most = max(int(options.settings.max_event_chars * share), 200)
        lines = "\n".join(told(event, most) for event in events)
        if len(lines) <= room:
            break
    parts.append(f"The events to sum up:\n{clip(lines, max(room, 2_000))}")
    return "\n\n".join(parts)
