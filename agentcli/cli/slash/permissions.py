"""Show or change what runs unasked: the mode, and the rules that you made.

/permissions auto-edit changes the mode, as Shift-Tab does. plan only reads; ask asks for what
neither the sandbox nor a checkpoint covers; auto-edit also changes files unasked where there is no
sandbox; yolo asks nothing. What is denied or blocked stays so in every mode.

/permissions remove bash(git push origin main) removes a rule that was saved with "always".
"""

from __future__ import annotations

from collections.abc import Sequence

from agentcli.app.policy.rules import forget_rule, rules_in_force
from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.slash_command import SlashCommand, beginning
from agentcli.errors import UsageError
from agentcli.security.policy.rule import Rule
from agentcli.ui.prompt.control import Completion
from agentcli.ui.text import Line, Span, cells, printable

_MODES: dict[str, str] = {
    "plan": "reads, changes nothing",
    "ask": "asks for what neither the sandbox nor a checkpoint covers",
    "auto-edit": "as ask, and changes files unasked where there is no sandbox",
    "yolo": "asks nothing; what is denied or blocked stays so",
}
_REMOVE = "remove"
_WIDEST = 44


def permissions(conversation: Conversation, argument: str) -> None:
    word, _, rule = argument.partition(" ")
    if not argument:
        _show(conversation)
    elif argument in _MODES:
        conversation.set_mode(argument)
        conversation.tell(f"{argument}: {_MODES[argument]}")
    elif word == _REMOVE and rule:
        _remove(conversation, rule.strip())
    else:
        raise UsageError(
            f"there is no mode {argument!r}",
            hint=f"one of {', '.join(_MODES)}; or /permissions remove RULE",
        )


def _show(conversation: Conversation) -> None:
    builder, mode = conversation.builder, conversation.settings.agent.approval
    given, saved = rules_in_force(builder.settings, builder.environ, builder.workspace)
    lines: list[Line] = [[Span(mode, "bold"), Span(f": {_MODES[mode]}")]]
    rows = [
        (rule, builder.origins.get(f"security.{rule.decision}", rule.origin)) for rule in given
    ] + [(rule, "saved here, with always") for rule in saved]
    if rows:
        # In the order in which the policy applies them: denials first.
        rows.sort(key=lambda row: ("deny", "ask", "allow").index(row[0].decision))
        lines += [[], [Span("rules", "bold")], *_table(rows)]
    if grants := _grants(conversation):
        lines += [[], [Span("allowed for this session", "bold")]]
        lines += [[Span(f"  {printable(grant, multiline=False)}")] for grant in grants]
    hints = [f"/permissions {' | '.join(_MODES)}"]
    if saved:
        hints.append(f"/permissions remove {saved[0]}")
    lines += [[], *([Span(printable(hint, multiline=False), "dim")] for hint in hints)]
    conversation.print(*lines, whole=True)


def _table(rows: Sequence[tuple[Rule, str]]) -> list[Line]:
    texts = [printable(str(rule), multiline=False) for rule, _ in rows]
    column = min(max(map(cells, texts)), _WIDEST)
    return [
        [
            Span(f"  {rule.decision:<5}  {text}{' ' * (column - cells(text))}"),
            Span(f"  {printable(origin, multiline=False)}", "dim"),
        ]
        for (rule, origin), text in zip(rows, texts, strict=True)
    ]


def _grants(conversation: Conversation) -> Sequence[str]:
    return conversation.opened.session.state.grants if conversation.opened is not None else ()


def _remove(conversation: Conversation, text: str) -> None:
    builder = conversation.builder
    forget_rule(builder.environ, builder.workspace, text)
    if conversation.opened is not None:
        conversation.opened.policy.reload()
    conversation.tell(f"removed: {printable(text, multiline=False)}")
    if any(text in grant.split("; ") for grant in _grants(conversation)):
        told = "this session still allows it, as you allowed it here; a new one asks: /new"
        conversation.tell(told, style="yellow")


def complete(conversation: Conversation, typed: str) -> Sequence[Completion]:
    builder = conversation.builder
    words = dict(_MODES)
    if typed.startswith(f"{_REMOVE} "):
        _, saved = rules_in_force(builder.settings, builder.environ, builder.workspace)
        words = {f"{_REMOVE} {rule}": rule.decision for rule in saved}
    elif _REMOVE.startswith(typed):
        words[_REMOVE] = "a rule that was saved with always"
    return beginning(typed, words)


SLASH_COMMAND = SlashCommand(
    permissions, takes="[MODE | remove RULE]", complete=complete, at_once=True
)
