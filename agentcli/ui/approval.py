"""The question whether an action may run: all that it would do, as lines, and the answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from agentcli.events import Action, actions
from agentcli.events.base import Risk
from agentcli.ui.calls import argument_rows, raw_argument_rows
from agentcli.ui.outputs import change_rows, number_width
from agentcli.ui.text import (
    ExactLine,
    Line,
    Span,
    Style,
    exact_lines,
    exact_pieces,
    exact_rows,
    reveal_hidden,
)

_EDITS = {
    "str_replace": "replace",
    "insert": "insert",
    "create": "create",
    "undo_edit": "undo the last edit",
    "llm_edit": "rewrite",
}
"""Words for the commands of an edit."""


class ApprovalView(NamedTuple):
    """An action to be shown. `kind` fits into "Allow this …?"; `wants` is what it wants beyond the
    sandbox; `words` is what the model says about it, which proves nothing."""

    kind: str
    body: list[ExactLine]
    place: str = ""
    wants: tuple[str, ...] = ()
    words: str = ""


def approval_view(action: Action, current: str | None = None) -> ApprovalView:
    """Return the view of `action`. `current` is the present content of the file to be written, None
    if there is no such file or its content is unknown."""
    match action:
        case actions.CmdRunAction(job=str() as job, command=verb):
            return ApprovalView("control of a background job", exact_lines(f"{verb} {job}"))
        case actions.CmdRunAction():
            return _command(action)
        case actions.IPythonRunCellAction(code=code):
            return ApprovalView("Python code", exact_lines(code))
        case actions.BrowseURLAction(url=url):
            return ApprovalView("fetch", exact_lines(url), wants=_other_spelling(url))
        case actions.BrowseInteractiveAction(steps=steps, url=url):
            lines = [" ".join(filter(None, map(step.get, actions.STEP_PARTS))) for step in steps]
            body = [text for line in lines for text in exact_lines(line)]
            return ApprovalView("browsing", body, wants=_other_spelling(url or ""))
        case actions.FileWriteAction(path=path, content=content):
            kind = "write" if current is None else "write over a file"
            body = [*exact_lines(path), ExactLine(""), *_change(current, content)]
            return ApprovalView(kind, body)
        case actions.FileEditAction():
            return ApprovalView("edit", _edit(action, current))
        case actions.ToolCallAction(name=name, raw_arguments=arguments):
            return ApprovalView(f"call of {name}", _arguments(arguments))
        case actions.MCPAction(server=server, name=name, arguments=values):
            kind = f"call of {name}, a tool of the server {server}"
            return ApprovalView(kind, list(map(ExactLine, argument_rows(values))))
    call = action.tool_call_metadata
    if call is None:
        return ApprovalView("action", exact_lines(action.model_dump_json(exclude_defaults=True)))
    return ApprovalView(f"call of {call.function_name}", _arguments(call.raw_arguments))


def _arguments(raw: str) -> list[ExactLine]:
    return list(map(ExactLine, raw_argument_rows(raw)))


def _command(action: actions.CmdRunAction) -> ApprovalView:
    kind = "command"
    if action.is_input:
        kind = "input to the running command"
    elif action.background:
        kind = "command in the background"
    wants = {
        "restarts the shell first": action.restart,
        "reaches the network": action.network,
        "runs outside the sandbox, with all your rights": action.unsandboxed,
    }
    wanted = tuple(what for what, is_wanted in wants.items() if is_wanted)
    return ApprovalView(kind, exact_lines(action.command), action.cwd or "", wanted, action.reason)


def _other_spelling(url: str) -> tuple[str, ...]:
    """Return the ASCII form of a host with other letters, which may look like a different host."""
    try:
        host = urlsplit(url).hostname or ""
        known = host.encode("idna").decode()
    except ValueError:
        return ()
    return () if host.isascii() else (f"reaches {known}",)


def _edit(action: actions.FileEditAction, current: str | None) -> list[ExactLine]:
    what = _EDITS[action.command]
    if action.insert_line is not None:
        what += f" after line {action.insert_line}"
    elif action.replace_all:
        what += " every occurrence"
    elif action.start is not None:
        what += f" lines {action.start} to {action.end or 'the end'}"
    head = [*exact_lines(action.path), ExactLine(""), ExactLine(f"{what}:")]
    new = action.new_str if action.new_str is not None else action.content
    if action.command == "create":
        return [*exact_lines(action.path), ExactLine(""), *_change(current, new or "")]
    if new is None and not action.replacements:
        return head
    after = text_after(action, current, new or "")
    if current is not None and after is not None:
        return [*head, *_change(current, after)]
    pairs = [(old, text) for old, text, _ in action.replacements] or [("", new or "")]
    rows = [row for pair in pairs for row in change_rows(*(f"{t}\n" if t else "" for t in pair))]
    return [*head, *(ExactLine(row.text, row.sign, row.style) for row in rows)]


def text_after(action: actions.FileEditAction, current: str | None, new: str) -> str | None:
    """Return the whole file as it would be after the edit; None if that is unknown."""
    if current is None:
        return None
    if action.insert_line is not None:
        lines = current.splitlines(keepends=True)
        at = action.insert_line
        added = new if new.endswith("\n") or not new else f"{new}\n"
        return "".join([*lines[:at], added, *lines[at:]]) if at <= len(lines) else None
    for old, text, everywhere in action.replacements:
        found = current.count(old)
        if not found or (found > 1 and not everywhere):
            return None
        current = current.replace(old, text)
    return current if action.replacements else None


def _change(old: str | None, new: str) -> Iterator[ExactLine]:
    """Yield the change as it is shown after it is made: numbered, with few unchanged lines."""
    if old == new:
        yield ExactLine("nothing changes")
        return
    rows = change_rows(old or "", new)
    width = number_width(rows)
    for row in rows:
        yield ExactLine(row.text, row.mark(width), row.style)


_FOLDED_LINES, _FOLDED_CHARACTERS = 100, 2_000
"""Limits of the one-line form; it has more characters than any terminal has columns."""
_RISKS: dict[Risk, tuple[str, Style]] = {
    Risk.LOW: ("low", ""),
    Risk.MEDIUM: ("medium", "yellow"),
    Risk.HIGH: ("HIGH", "red bold"),
}


CurrentText = Callable[[str], str | None]
"""Returns the present content of a file, or None if it is unknown."""


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
        return list(exact_rows(self.view.body, width))

    def words_rows(self, width: int) -> list[Line]:
        """Return what the model says about the action."""
        words = self.view.words
        return [[Span("  why, in the model's own words:")], *quoted(words, width)] if words else []

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
    action: Action, reason: str, risk: Risk, offers: RuleOffers, current_text: CurrentText
) -> Question:
    """Return the question whether `action` may run. If the risk is high, no rule is offered.
    `current_text` returns the present content of a file to be written, None if it is unknown."""
    current = None
    if isinstance(action, actions.FileWriteAction | actions.FileEditAction):
        current = current_text(action.path)
    offered = "" if risk >= Risk.HIGH else offers.grant_for(action)
    rules = tuple(offers.grant_choices(action)) or (offered,) if offered else ()
    return Question(
        approval_view(action, current),
        reason,
        risk,
        rules,
        offered,
        lambda text: offers.grant_objection(action, text),
    )


def quoted(text: str, width: int) -> list[Line]:
    return list(exact_rows(exact_lines(text), width))


def hanging(text: str, width: int, style: Style = "", before: str = "  ") -> list[Line]:
    """Wrap visible text with a hanging indent, so that a continuation row, which may hold parts of
    any path or command, can't pass for a line of its own."""
    deeper = f"{before}  "
    pieces = exact_pieces(text, width - len(deeper))
    return [
        [Span(f"{deeper if at else before}{piece.rstrip('␣')}", style)]
        for at, piece in enumerate(pieces)
    ]


def keyed(key: str, meaning: str, width: int, *, marked: bool = False) -> list[Line]:
    """Return a key with its meaning, whose rows are aligned below each other."""
    first, *others = exact_pieces(meaning, width - 5)
    mark = "> " if marked else "  "
    style: Style = "bold" if marked else ""
    line = [Span(mark, "bold"), Span(key, "bold"), Span(f"  {first.rstrip('␣')}", style)]
    return [line, *([Span(f"     {piece}".rstrip("␣"), style)] for piece in others)]
