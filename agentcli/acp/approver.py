"""Asks the user in their editor."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from acp.schema import (
    ElicitationFormSessionMode,
    ElicitationSchema,
    ElicitationStringPropertySchema,
    PermissionOption,
    ToolCallUpdate,
)

from agentcli.acp.editor import CannotAsk, Editor
from agentcli.acp.tool_calls import Content, ToolCallView, call_id, fenced, kind, text, title
from agentcli.acp.updates import SessionUpdates
from agentcli.errors import TurnInterrupted
from agentcli.events import Action, Risk
from agentcli.events.actions import AskUserAction, FileEditAction, FileWriteAction
from agentcli.events.approval import Approval
from agentcli.ui.approval import Question, RuleOffers, question_about, text_after
from agentcli.ui.outputs import Row, change_rows
from agentcli.ui.text import plain, printable, reveal_hidden

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
        question = question_about(
            action, reason, risk=risk, offers=self.offers, current_text=self.current_text
        )
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
        return change_rows(action.old_str or "", new or "")

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
