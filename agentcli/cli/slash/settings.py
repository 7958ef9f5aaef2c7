"""Slash commands that show and change what holds for the conversation."""

from __future__ import annotations

import os
from collections.abc import Sequence
from threading import Thread
from typing import get_args

from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.containment import ITS_PAGES, open_port
from agentcli.app.policy import forget_rule, rules_in_force
from agentcli.cli.commands.notes import NOTES, notes_of
from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.conversation.user_programs import edit
from agentcli.cli.options import number
from agentcli.cli.provider_probe import catalog_with, model_facts, probe_providers, told_facts
from agentcli.cli.slash_command import SlashCommand, beginning
from agentcli.errors import ConfigError, NothingChosen, UsageError
from agentcli.knowledge.notes import Notes, Target
from agentcli.security.policy.rule import Rule
from agentcli.settings import ModelSettings
from agentcli.ui.choices import Choice, aligned
from agentcli.ui.picker import Question, pick
from agentcli.ui.prompt.control import Completion
from agentcli.ui.text import Line, Span, cells, printable

_SOON_S = 0.05
_MOST_OFFERED = 50


class _Names:
    """The names of models for completion, listed once on a separate thread, because that loads the
    catalogue and looks for local servers."""

    def __init__(self) -> None:
        self._names: Sequence[str] = ()
        self._lister: Thread | None = None

    def of(self, builder: AgentBuilder) -> Sequence[str]:
        """Return the names known so far. At first they may be few; the next key gets more."""
        if self._lister is None:

            def read() -> None:
                self._names = builder.registry().usual_names()

            self._lister = Thread(target=read, name="models to complete", daemon=True)
            self._lister.start()
            self._lister.join(_SOON_S)
        return self._names

    def learn(self, names: Sequence[str]) -> None:
        self._names = list(dict.fromkeys([*names, *self._names]))


_names = _Names()


def model(conversation: Conversation, argument: str) -> None:
    """Switch to another model, from the next request on, with all that was said so far.

    A part of the name is enough if it fits only one model: /model sonnet. Without a name, you
    choose from the models that can be reached; typing narrows the list."""
    conversation.use_model(argument or _choose_model(conversation))
    if conversation.opened is None:
        conversation.tell(f"{conversation.status.model} will answer")


def _choose_model(conversation: Conversation) -> str:
    with conversation.working():
        registry = conversation.builder.registry()
        answers = list(probe_providers(registry))
        told = told_facts(registry, answers)
    names = [f"{each.provider}/{model}" for each in answers for model in each.models]
    if not names:
        why = "; ".join(f"{each.provider}: {each.error}" for each in answers if each.error)
        raise ConfigError(why or "no model can be reached", hint="agent setup asks for a key")
    _names.learn(names)
    catalog = catalog_with(conversation.settings.prices, told)
    now = conversation.status.model
    names = list(dict.fromkeys([now, *names]))
    cells = [[Span(cell, "dim") for cell in model_facts(catalog, name)] for name in names]
    choices = [
        Choice(name, title=name, facts=facts, name="now" if name == now else "")
        for name, facts in zip(names, aligned(cells, right=(0, 1, 2)), strict=True)
    ]
    with conversation.prompt.suspended():
        picked = pick(Question("which model? (context, $ in, $ out) ", "switches to it"), choices)
    if picked is None:
        raise NothingChosen
    return picked.value


def _complete_model(conversation: Conversation, typed: str) -> Sequence[Completion]:
    if not typed or typed.endswith(" "):
        return ()
    names = _names.of(conversation.builder)
    begin = beginning(typed, dict.fromkeys(names, ""))
    hold = [Completion(f"{n} ") for n in names if typed in n and not n.startswith(typed)]
    return [*begin, *hold][:_MOST_OFFERED]


_DEFAULT = "default"
_LEVELS = {
    level or _DEFAULT: level for level in get_args(ModelSettings.model_fields["effort"].annotation)
}
_HELP = {_DEFAULT: "as the provider decides"}


def effort(conversation: Conversation, argument: str) -> None:
    """Set how much the model reasons, from none to max, or as the provider decides (default).

    It applies from the next request on, for this conversation: the level, or the nearest that the
    model takes. Without a level, the current one is shown. To keep it: agent config set
    model.effort high"""
    if argument and argument not in _LEVELS:
        raise UsageError(f"there is no effort {argument!r}", hint=f"one of {', '.join(_LEVELS)}")
    if argument:
        conversation.use_effort(_LEVELS[argument])
    level = conversation.settings.model.effort or _HELP[_DEFAULT]
    others = "" if argument else f" (others: {', '.join(_LEVELS)})"
    conversation.tell(f"effort: {level}{others}")


def _complete_effort(conversation: Conversation, typed: str) -> Sequence[Completion]:
    return beginning(typed, {level: _HELP.get(level, "") for level in _LEVELS})


_MODES: dict[str, str] = {
    "plan": "reads, changes nothing",
    "ask": "asks for what neither the sandbox nor a checkpoint covers",
    "auto-edit": "as ask, and changes files unasked where there is no sandbox",
    "yolo": "asks nothing; what is denied or blocked stays so",
}
_REMOVE = "remove"
_WIDEST = 44


def permissions(conversation: Conversation, argument: str) -> None:
    """Show or change what runs unasked: the mode, and the rules that you made.

    /permissions auto-edit changes the mode, as Shift-Tab does. plan only reads; ask asks for what
    neither the sandbox nor a checkpoint covers; auto-edit also changes files unasked where there is
    no sandbox; yolo asks nothing. What is denied or blocked stays so in every mode.

    /permissions remove bash(git push origin main) removes a rule that was saved with "always"."""
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


def _complete_permissions(conversation: Conversation, typed: str) -> Sequence[Completion]:
    builder = conversation.builder
    words = dict(_MODES)
    if typed.startswith(f"{_REMOVE} "):
        _, saved = rules_in_force(builder.settings, builder.environ, builder.workspace)
        words = {f"{_REMOVE} {rule}": rule.decision for rule in saved}
    elif _REMOVE.startswith(typed):
        words[_REMOVE] = "a rule that was saved with always"
    return beginning(typed, words)


_WAYS: dict[str, tuple[Target, str]] = {
    "edit": ("memory", "the notes on this project, in $EDITOR"),
    "edit user": ("user", "the notes on you, in $EDITOR"),
}


def memory(conversation: Conversation, argument: str) -> None:
    """Show the notes that outlive a session, on this project and on you; `edit` opens them.

    `/memory edit` opens those on the project in $EDITOR, `/memory edit user` those on you. Sessions
    are given the notes when they begin, so a change counts from the next session on."""
    if argument:
        _edit(conversation, notes_of(conversation), argument)
    else:
        NOTES.in_conversation(conversation, "")


def _edit(conversation: Conversation, notes: Notes, way: str) -> None:
    """Open the notes in the editor. Raises UsageError."""
    if way not in _WAYS:
        raise UsageError(f"/memory {way} is not a command", hint="/memory, /memory edit [user]")
    path = notes.path(_WAYS[way][0])
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)

    def done(code: int) -> None:
        said = "changes apply from the next session on"
        conversation.tell(said if code == 0 else f"the editor failed ({code})")

    edit(path, conversation.prompt, done)


def _complete_memory(conversation: Conversation, typed: str) -> Sequence[Completion]:
    return [Completion(way, about) for way, (_, about) in _WAYS.items() if way.startswith(typed)]


_HIGHEST_PORT = 65_535


def open_(conversation: Conversation, argument: str) -> None:
    """Reach a server that was started here from your browser: /open 9123.

    Until the session is closed, the server's port in the sandbox is reachable at 127.0.0.1, at the
    same port number if that is free. /open alone lists the open ports; /open 9123 again closes that
    one."""
    if conversation.opened is None:
        raise UsageError("nothing was started yet", hint="say what is to be done")
    ports = conversation.opened.open_ports
    if not argument:
        lines = [[Span(opened.url)] for opened in ports.values()]
        conversation.print(*(lines or [[Span("no port is open: /open PORT", "dim")]]))
        return
    port = number(argument, "/open 9123")
    if port > _HIGHEST_PORT:
        raise UsageError(f"there is no port {port}", hint=f"they go up to {_HIGHEST_PORT}")
    if before := ports.pop(port, None):
        before.close()
        conversation.tell(f"port {port} is closed")
        return
    opened = open_port(os.getpid(), port)
    if opened is None:
        conversation.print([Span(f"http://127.0.0.1:{port}/")])
        return
    ports[port] = opened
    conversation.print([Span(opened.url), Span(f"  {ITS_PAGES}", "dim")])


SLASH_COMMANDS = {
    "model": SlashCommand(model, takes="[NAME]", complete=_complete_model),
    "effort": SlashCommand(effort, takes="[LEVEL]", complete=_complete_effort),
    "permissions": SlashCommand(
        permissions, takes="[MODE | remove RULE]", complete=_complete_permissions, at_once=True
    ),
    "memory": SlashCommand(memory, takes="[edit [user]]", complete=_complete_memory, at_once=True),
    "open": SlashCommand(open_, takes="[PORT]", at_once=True),
}
