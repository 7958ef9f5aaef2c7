"""Sends updates and questions to the editor from the threads of sessions, which have no event
loop.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any, TypeVar

from acp.exceptions import RequestError
from acp.helpers import update_tool_call
from acp.interfaces import Client
from acp.schema import (
    AcceptElicitationResponse,
    AllowedOutcome,
    AvailableCommandsUpdate,
    ClientCapabilities,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    ElicitationFormSessionMode,
    ElicitationSchema,
    ElicitationStringPropertySchema,
    PermissionOption,
    ToolCallStart,
    ToolCallStatus,
    ToolCallUpdate,
)

from agentcli import interrupts
from agentcli.acp.tool_calls import Content, ToolCallView, call_id, fenced, kind, text, title
from agentcli.acp.updates import SessionUpdates, Update
from agentcli.errors import TurnInterrupted
from agentcli.events import Action, Risk
from agentcli.events.actions import AskUserAction, FileEditAction, FileWriteAction
from agentcli.events.progress import Approval
from agentcli.ui.approval import Question, RuleOffers, question_about, text_after
from agentcli.ui.outputs import Row, change_rows
from agentcli.ui.text import plain, printable, reveal_hidden

T = TypeVar("T")
AnyUpdate = Update | AvailableCommandsUpdate | ConfigOptionUpdate | CurrentModeUpdate

_TICK_S = 0.1


class CannotAsk(Exception):
    """The editor takes no questions; the text says why."""


@dataclass
class Editor:
    """The editor of one connection. `capabilities` are known from its first message on."""

    client: Client
    loop: asyncio.AbstractEventLoop
    capabilities: ClientCapabilities = field(default_factory=ClientCapabilities)

    @property
    def has_forms(self) -> bool:
        elicitation = self.capabilities.elicitation
        return elicitation is not None and elicitation.form is not None

    def tell(self, session_id: str, update: AnyUpdate) -> None:
        """Send an update. Returns once it is written, so an editor that reads slowly slows its
        sessions down. Does nothing if the editor is gone."""
        try:
            self._begin(self.client.session_update(session_id, update)).result()
        except (ConnectionError, RuntimeError, asyncio.CancelledError):
            return

    def choose(
        self, session_id: str, call: ToolCallUpdate, options: Sequence[PermissionOption]
    ) -> str:
        """Return the id of the option that the user chose. Raises TurnInterrupted if they stopped
        the turn instead, CannotAsk."""
        asked = self.client.request_permission(session_id, call, list(options))
        answer = self._answered(asked)
        if isinstance(answer.outcome, AllowedOutcome):
            return answer.outcome.option_id
        raise TurnInterrupted("interrupted", 130)

    def ask_beside(
        self, session_id: str, call: ToolCallUpdate, options: Sequence[PermissionOption]
    ) -> str:
        """Ask as `choose` does, about something that is no call of this session: it is shown as a
        call that ends with the answer."""
        shown = ToolCallStart(
            session_update="tool_call",
            tool_call_id=call.tool_call_id,
            title=call.title or "",
            kind=call.kind,
            status="pending",
            content=call.content,
            locations=call.locations,
        )
        self.tell(session_id, shown)
        status: ToolCallStatus = "failed"
        try:
            chosen = self.choose(session_id, call, options)
            status = "completed"
        finally:
            self.tell(session_id, update_tool_call(call.tool_call_id, status=status))
        return chosen

    def fill_in(self, message: str, form: ElicitationFormSessionMode) -> dict[str, Any] | None:
        """Return what the user wrote into a form; None if they declined. Raises TurnInterrupted,
        CannotAsk."""
        answer = self._answered(self.client.create_elicitation(message, form))
        return answer.content or {} if isinstance(answer, AcceptElicitationResponse) else None

    def _answered(self, request: Coroutine[Any, Any, T]) -> T:
        """Wait for the answer however long it takes, unless this thread is told to stop."""
        future = self._begin(request)
        try:
            while not wait([future], _TICK_S).done:
                interrupts.check()
            return future.result()
        except RequestError as error:
            raise CannotAsk(f"the editor can't ask: {error}") from error
        except (ConnectionError, asyncio.CancelledError) as error:
            raise TurnInterrupted("the editor is gone", 141) from error
        except ValueError as error:
            raise CannotAsk("the editor gave an invalid answer") from error
        finally:
            future.cancel()

    def _begin(self, request: Coroutine[Any, Any, T]) -> Future[T]:
        try:
            return asyncio.run_coroutine_threadsafe(request, self.loop)
        except RuntimeError:
            request.close()
            raise


ONCE, ALWAYS, NO, NEVER = "allow-once", "allow-always", "reject-once", "reject-always"
_WIDTH = 100
"""Columns of the text that explains a question."""
_NO_ANSWER = "no-answer"


@dataclass
class EditorApprover:
    """The approver of a session or of one of its children. `refused` holds what the user rejected
    for as long as the session is open, and is not asked again: the rule that would have allowed it,
    or the action itself."""

    editor: Editor
    session_id: str
    updates: SessionUpdates
    calls: ToolCallView
    offers: RuleOffers
    current_text: Callable[[str], str | None]
    refused: set[str]
    stopping: Callable[[], None]
    """Is called if the user stops the turn instead of answering."""
    of_child: bool = False
    """Whether its calls belong to a child, which the editor does not know."""

    def ask(self, action: Action, reason: str, *, risk: Risk = Risk.UNKNOWN) -> Approval:
        """Ask whether the action may run. Raises TurnInterrupted."""
        question = question_about(action, reason, risk, self.offers, self.current_text)
        what = question.offered or f"{question.view.kind}\n{question.what}"
        if what in self.refused:
            return Approval(False, reason="no, as before; do not ask again")
        number = f"child-{secrets.token_hex(4)}" if self.of_child else call_id(action.id)
        call = ToolCallUpdate(
            tool_call_id=number,
            title=title(action),
            kind=kind(action),
            status="pending",
            content=list(self._shown(action, question)),
            locations=self.calls.locations(action) or None,
        )
        try:
            chosen = self._chosen(call, list(_options(question)))
        except CannotAsk as why:
            return Approval(False, reason=str(why))
        if chosen == NEVER:
            self.refused.add(what)
        if chosen == ALWAYS and question.offered:
            return Approval(True, scope="always", rule=question.offered)
        return Approval(chosen == ONCE)

    def answer(self, question: str, options: Sequence[str]) -> str | None:
        """Return the user's answer to a question of the model; None if they don't answer. Raises
        TurnInterrupted."""
        try:
            if self.editor.has_forms:
                return self._written(question, options)
            return self._picked(question, options) if options else None
        except CannotAsk:
            return None

    def _chosen(self, call: ToolCallUpdate, options: Sequence[PermissionOption]) -> str:
        ask = self.editor.ask_beside if self.of_child else self.editor.choose
        try:
            return ask(self.session_id, call, options)
        except TurnInterrupted:
            self.stopping()
            raise

    def _shown(self, action: Action, question: Question) -> Iterator[Content]:
        """Yield all that is asked about, and why it is asked."""
        change = list(self.calls.change(action, self._change(action)))
        yield from change or [
            fenced("\n".join(reveal_hidden(line.text) for line in question.view.body))
        ]
        facts = [*question.fact_rows(_WIDTH), *question.words_rows(_WIDTH)]
        if facts:
            yield text("  \n".join(plain(row).strip() for row in facts))

    def _change(self, action: Action) -> list[Row]:
        """Return the rows of a file's change, as far as it is known."""
        if not isinstance(action, FileEditAction | FileWriteAction):
            return []
        current = self.current_text(action.path)
        if isinstance(action, FileWriteAction):
            return change_rows(current or "", action.content)
        new = action.new_str if action.new_str is not None else action.content
        after = text_after(action, current, new or "")
        if current is not None and after is not None:
            return change_rows(current, after)
        pairs = [(old, text) for old, text, _ in action.replacements] or [("", new or "")]
        return [row for pair in pairs for row in change_rows(*pair)]

    def _written(self, question: str, options: Sequence[str]) -> str | None:
        fields = {"answer": ElicitationStringPropertySchema(type="string", title="Answer")}
        if options:
            given = list(map(printable, options))
            choice = ElicitationStringPropertySchema(type="string", title="Choose", enum=given)
            fields = {"choice": choice, **fields}
            fields["answer"].title = "Or in your own words"
        form = ElicitationFormSessionMode(
            session_id=self.session_id,
            tool_call_id=self._open_question(question),
            requested_schema=ElicitationSchema(properties=dict(fields)),
        )
        said = self.editor.fill_in(printable(question), form) or {}
        return str(said.get("answer") or said.get("choice") or "") or None

    def _picked(self, question: str, options: Sequence[str]) -> str | None:
        call = ToolCallUpdate(
            tool_call_id=self._open_question(question) or "question",
            title=printable(question, multiline=False),
            kind="other",
            status="pending",
        )
        offered = [
            PermissionOption(
                option_id=str(number), name=printable(option, multiline=False), kind="allow_once"
            )
            for number, option in enumerate(options)
        ]
        none = PermissionOption(option_id=_NO_ANSWER, name="No answer", kind="reject_once")
        chosen = self._chosen(call, [*offered, none])
        known = dict(zip(map(str, range(len(options))), options, strict=True))
        return known.get(chosen)

    def _open_question(self, question: str) -> str | None:
        return self.updates.open_call(
            lambda action: isinstance(action, AskUserAction) and action.question == question
        )


def _options(question: Question) -> Iterator[PermissionOption]:
    yield PermissionOption(option_id=ONCE, name="Allow once", kind="allow_once")
    if question.offered:
        rule = printable(question.offered, multiline=False, strict=True)
        yield PermissionOption(
            option_id=ALWAYS, name=f"Always allow here: {rule}", kind="allow_always"
        )
    yield PermissionOption(option_id=NO, name="Reject", kind="reject_once")
    yield PermissionOption(
        option_id=NEVER, name="Reject, also when it asks again", kind="reject_always"
    )
