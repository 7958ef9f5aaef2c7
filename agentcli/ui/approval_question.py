"""The question whether an action may run, as data, and the possible answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from agentcli.events import Action
from agentcli.events.actions import FileEditAction, FileWriteAction
from agentcli.events.base import Risk
from agentcli.ui.approval_view import ApprovalView, approval_view
from agentcli.ui.style import Line, Span, Style
from agentcli.ui.unambiguous_text import reveal_hidden, rows, texts, wrapped

_FOLDED_LINES, _FOLDED_CHARACTERS = 100, 2_000
"""Limits of the one-line form; it has more characters than any terminal has columns."""
_RISKS: dict[Risk, tuple[str, Style]] = {
    Risk.LOW: ("low", ""),
    Risk.MEDIUM: ("medium", "yellow"),
    Risk.HIGH: ("HIGH", "red bold"),
}


class RuleOffers(Protocol):
    """Offers the rules that a lasting answer could save."""

    def grant_for(self, action: Action) -> str:
        """Return the rule to offer first; "" if none is safe."""

    def grant_choices(self, action: Action) -> Sequence[str]:
        """Return rules, from the one for exactly this action to the broadest that makes sense."""

    def grant_objection(self, action: Action, text: str) -> str:
        """Return why a rule that the user wrote can't be saved for the action; "" if it can."""


@dataclass(frozen=True)
class Question:
    """The question whether an action may run. `reason` is why it is asked. `rules` are the rules to
    choose from, narrowest first, and `offered` is the one suggested; `objection` returns why some
    other rule can't be saved. Without rules the action can only be allowed once."""

    view: ApprovalView
    reason: str = ""
    risk: Risk = Risk.UNKNOWN
    rules: tuple[str, ...] = ()
    offered: str = ""
    objection: Callable[[str], str] = lambda text: ""

    @property
    def title(self) -> str:
        return f"Allow this {reveal_hidden(self.view.kind)}?"

    @property
    def what(self) -> str:
        """The action in one line, cut if it is long."""
        lines = (line.text for line in self.view.body[:_FOLDED_LINES] if line.text.strip())
        return reveal_hidden(" ⏎ ".join(lines)[:_FOLDED_CHARACTERS])

    def action_rows(self, width: int) -> list[Line]:
        """Return the rows of the whole, exact action."""
        return list(rows(self.view.body, width))

    def words_rows(self, width: int) -> list[Line]:
        """Return what the model says about the action."""
        if not self.view.words:
            return []
        return [[Span("  why, in the model's own words:")], *quoted(self.view.words, width)]

    def fact_rows(self, width: int) -> list[Line]:
        """Return where the action runs, what it wants beyond the sandbox, its risk, and why it is
        asked about."""
        facts: list[tuple[str, Style]] = []
        if self.view.place:
            facts.append((f"in {reveal_hidden(self.view.place)}", ""))
        facts += [(f"It {want}.", "yellow") for want in self.view.wants]
        if self.risk in _RISKS:
            word, style = _RISKS[self.risk]
            facts.append((f"risk: {word}", style))
        if self.reason:
            facts.append((f"asked because: {reveal_hidden(self.reason)}", ""))
        return [row for text, style in facts for row in hanging(text, width, style)]

    def rule_rows(self, rule: str, width: int) -> list[Line]:
        """Return the rule that a lasting answer would save, or why there is none."""
        if rule:
            return [[Span("  the rule for s and a:")], *quoted(rule, width)]
        why = "its risk is high" if self.risk >= Risk.HIGH else "no rule can be saved for this"
        return hanging(f"only once: {why}", width, "dim")


def question_about(
    action: Action,
    reason: str,
    *,
    risk: Risk,
    offers: RuleOffers,
    current_text: Callable[[str], str | None],
) -> Question:
    """Return the question whether `action` may run. If the risk is high, no rule is offered.
    `current_text` returns the present content of a file to be written, None if it is unknown."""
    current = None
    if isinstance(action, FileWriteAction | FileEditAction):
        current = current_text(action.path)
    offered = "" if risk >= Risk.HIGH else offers.grant_for(action)
    return Question(
        view=approval_view(action, current),
        reason=reason,
        risk=risk,
        rules=tuple(offers.grant_choices(action)) or (offered,) if offered else (),
        offered=offered,
        objection=lambda text: offers.grant_objection(action, text),
    )


def quoted(text: str, width: int) -> list[Line]:
    return list(rows(texts(text), width))


def hanging(text: str, width: int, style: Style = "", before: str = "  ") -> list[Line]:
    """Wrap visible text with a hanging indent, so that a continuation row, which may hold parts of
    any path or command, can't pass for a line of its own."""
    deeper = f"{before}  "
    pieces = wrapped(text, width - len(deeper))
    return [
        [Span(f"{deeper if at else before}{piece.rstrip('␣')}", style)]
        for at, piece in enumerate(pieces)
    ]


def keyed(key: str, meaning: str, width: int, *, marked: bool = False) -> list[Line]:
    """Return a key with its meaning, whose rows are aligned below each other."""
    first, *others = wrapped(meaning, width - 5)
    mark = "> " if marked else "  "
    style: Style = "bold" if marked else ""
    lines: list[Line] = [
        [Span(mark, "bold"), Span(key, "bold"), Span(f"  {first.rstrip('␣')}", style)]
    ]
    return [*lines, *([Span(f"     {piece}".rstrip("␣"), style)] for piece in others)]
