"""Tells an editor what happens in a session, and what has happened before."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from acp.helpers import (
    SessionUpdate,
    plan_entry,
    update_agent_message_text,
    update_agent_thought_text,
    update_plan,
    update_tool_call,
    update_user_message,
    update_user_message_text,
)
from acp.schema import Cost, PlanEntryStatus, SessionInfoUpdate, UsageUpdate

from agentcli.acp.tool_calls import Content, ToolCallView, call_id, fenced, image_of, progress, text
from agentcli.events import Action, Event, Observation, Progress, Source
from agentcli.events.actions import (
    AgentFinishAction,
    AgentThinkAction,
    MessageAction,
    TaskTrackingAction,
)
from agentcli.events.conversation import live, newest_first
from agentcli.events.observations import (
    AgentStateChangedObservation,
    DecisionObservation,
    SessionStartedObservation,
    TaskTrackingObservation,
)
from agentcli.events.progress import (
    ChildProgress,
    Notice,
    ReasoningDelta,
    ReplyAbandoned,
    Status,
    TextDelta,
    ToolOutput,
)
from agentcli.sessions.session import SessionLog
from agentcli.ui.notices import note
from agentcli.ui.text import plain, printable

Update = SessionUpdate | UsageUpdate

_OUTPUT_SHOWN = 8_000
"""Characters shown of a running command's output; its result has all that is kept."""
_BETWEEN_OUTPUTS_S = 0.25
_SHOWN = ("tool_call", "agent_thought_chunk", "user_message_chunk", "plan")
"""Updates that separate two texts of the agent."""
_PLAN: dict[str, PlanEntryStatus] = {
    "todo": "pending",
    "in_progress": "in_progress",
    "done": "completed",
}


class SessionUpdates:
    """Subscribes to a session. `send` gets the updates in order; `window` returns how many tokens a
    model takes."""

    def __init__(
        self,
        session: SessionLog,
        workspace: Path,
        send: Callable[[Update], None],
        window: Callable[[str], int],
    ) -> None:
        self._session = session
        self._calls = ToolCallView(workspace)
        self._send = send
        self._window = window
        self._open: dict[int, Action] = {}
        """Calls without a result, in order, by the action's id."""
        self._begun: set[int] = set()
        self._output: dict[int, str] = {}
        self._shown_at = 0.0
        self._streamed = self._thought = False
        """Whether text or reasoning of the present reply has been sent already."""
        self._said = ""
        self._in_text = False
        """Whether text of the agent was sent last."""
        self._waits_for = ""
        self._title = ""

    def replay(self) -> None:
        """Send the conversation so far, without what was taken back."""
        for event in live(self._session.events):
            if isinstance(event, MessageAction) and event.source is Source.USER:
                self._tell_user(event)
            else:
                self._tell(event)
        asked = (each for each in newest_first(self._session.events) if each.begins_main_reply)
        if (last := next(asked, None)) is not None:
            self._tell_usage(last)
        self._tell_title()

    def open_call(self, fits: Callable[[Action], bool]) -> str | None:
        """Return the id of the newest call without a result that `fits`; None if there is none."""
        found = [call_id(action.id) for action in self._open.values() if fits(action)]
        return found[-1] if found else None

    # --- a subscriber

    def on_event(self, event: Event) -> None:
        if isinstance(event, MessageAction) and event.source is Source.USER:
            self._said = ""
            if event.inbox_id is not None:
                # It comes from another terminal; the editor shows its own prompts itself.
                self._tell_user(event)
        else:
            self._tell(event)
        if event.begins_main_reply:
            # The reply has ended, whatever became of it.
            self._streamed = self._thought = False
            self._tell_usage(event)
        self._tell_title()

    def on_progress(self, told: Progress) -> None:
        match told:
            case TextDelta(text=words):
                self._begin_text(goes_on=self._streamed)
                self._streamed = True
                self._update(update_agent_message_text(printable(words)))
            case ReasoningDelta(text=words):
                self._thought = True
                self._update(update_agent_thought_text(printable(words)))
            case ReplyAbandoned(reason=reason):
                if self._streamed:
                    self.show_note(f"*This reply broke off and is void: {reason}*")
                self._streamed = self._thought = False
            case ToolOutput(action_id=action_id, text=words):
                self._add_output(action_id, words)
            case ChildProgress(action_id=action_id, doing=doing):
                self._show_live(action_id, lambda: text(doing))
            case Notice(text=words):
                self.show_note(f"*{words}*")
            case Status():
                self._tell_status(told)

    def show_note(self, words: str) -> None:
        """Show the user a note, such as one that is not from the model, as a paragraph of its
        own."""
        self._begin_text()
        self._update(update_agent_message_text(printable(words)))

    def _begin_text(self, *, goes_on: bool = False) -> None:
        """Begin a new paragraph, unless the text continues what was sent last."""
        if self._in_text and not goes_on:
            self._update(update_agent_message_text("\n\n"))

    def _update(self, update: Update) -> None:
        if update.session_update == "agent_message_chunk":
            self._in_text = True
        elif update.session_update in _SHOWN:
            self._in_text = False
        self._send(update)

    # --- events

    def _tell(self, event: Event) -> None:
        match event:
            case MessageAction(source=Source.AGENT):
                self._tell_reply(event)
            case AgentThinkAction(thought=thought):
                self._update(update_agent_thought_text(f"{printable(thought)}\n\n"))
            case AgentFinishAction() | TaskTrackingAction():
                self._open[event.id] = event
            case Action(runnable=True) if event.tool_call_metadata is not None:
                self._open[event.id] = event
                self._update(self._calls.begun(event))
            case DecisionObservation():
                pass
            case Observation(cause=int() as cause) if cause in self._open:
                self._tell_result(self._open.pop(cause), event)
            case SessionStartedObservation() | AgentStateChangedObservation():
                # The editor knows the former; the end of the turn tells the latter.
                pass
            case _:
                if event.cause is None and (line := note(event)):
                    self._update(update_agent_thought_text(f"{plain(line)}\n\n"))

    def _tell_reply(self, event: MessageAction) -> None:
        if event.reasoning and not self._thought:
            self._update(update_agent_thought_text(printable(event.reasoning)))
        if event.content and not self._streamed:
            self.show_note(event.content)
        self._said = event.content

    def _tell_result(self, action: Action, observation: Event) -> None:
        assert isinstance(observation, Observation)
        self._output.pop(action.id, None)
        self._begun.discard(action.id)
        if isinstance(action, AgentFinishAction):
            final = action.final_thought
            if final.strip() and final.strip() != self._said.strip():
                self.show_note(final)
        elif isinstance(observation, TaskTrackingObservation):
            self._update(
                update_plan(
                    [
                        plan_entry(
                            printable(item.get("title", ""), multiline=False), status=_PLAN[status]
                        )
                        for item in observation.task_list
                        if (status := item.get("status", "todo")) in _PLAN
                    ]
                )
            )
        elif not isinstance(action, TaskTrackingAction | AgentThinkAction):
            self._update(self._calls.ended(action, observation))

    def _tell_user(self, event: MessageAction) -> None:
        self._update(update_user_message_text(printable(event.content)))
        for url in event.image_urls:
            if (image := image_of(url)) is not None:
                self._update(update_user_message(image))

    def _tell_usage(self, event: Event) -> None:
        assert event.llm_metrics is not None
        state, metrics = self._session.state, event.llm_metrics
        usd = state.cost_usd
        cost = None if usd is None else Cost(amount=round(usd, 6), currency="USD")
        used = metrics.prompt_tokens + metrics.completion_tokens
        size = max(self._window(state.model), used)
        update = UsageUpdate(session_update="usage_update", used=used, size=size, cost=cost)
        self._update(update)

    def _tell_title(self) -> None:
        state = self._session.state
        title = printable(state.name or state.title, multiline=False)
        if title and title != self._title:
            self._title = title
            self._update(SessionInfoUpdate(session_update="session_info_update", title=title))

    # --- what passes

    def _tell_status(self, status: Status) -> None:
        if status.phase == "running":
            self._tell_running(status.detail)
        elif status.phase not in ("retrying", "waiting"):
            self._waits_for = ""
        elif (waits_for := f"{status.phase}: {status.detail}") != self._waits_for:
            self._waits_for = waits_for
            self._update(update_agent_thought_text(f"{printable(waits_for, multiline=False)}\n\n"))

    def _tell_running(self, message: str) -> None:
        for action in self._open.values():
            if action.message == message and action.id not in self._begun:
                self._begun.add(action.id)
                if not isinstance(action, AgentFinishAction | TaskTrackingAction):
                    self._update(update_tool_call(call_id(action.id), status="in_progress"))
                return

    def _add_output(self, action_id: int, words: str) -> None:
        if not words:
            return  # a sign of life, which editors show themselves
        output = (self._output.get(action_id, "") + words)[-_OUTPUT_SHOWN:]
        self._output[action_id] = output
        self._show_live(action_id, lambda: fenced(output))

    def _show_live(self, action_id: int, content: Callable[[], Content]) -> None:
        """Send the content at most a few times a second, as it is sent whole each time."""
        now = time.monotonic()
        if action_id in self._open and now - self._shown_at >= _BETWEEN_OUTPUTS_S:
            self._shown_at = now
            self._update(progress(action_id, [content()]))
