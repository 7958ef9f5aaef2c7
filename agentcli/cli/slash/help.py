"""Slash commands that show what can be typed, what is known, and what waits."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from agentcli.agent.prompts import INIT_TASK
from agentcli.cli.commands.skills import use_of
from agentcli.cli.conversation.control import ContinueWork
from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.options import number
from agentcli.cli.slash_command import (
    SlashCommand,
    help_lines,
    read_own_commands,
    slash_commands,
    unknown_command,
)
from agentcli.errors import UsageError
from agentcli.knowledge.skills import Skill
from agentcli.ui.prompt.control import Completion, Submission
from agentcli.ui.text import Line, Span, printable

_KEYS = (
    ("Enter", "send; while it works: heard at its next step"),
    ("Tab", "while it works: heard after the turn"),
    ("Alt-Enter, \\ Enter", "a new line"),
    ("Esc", "interrupt; twice on an empty line: go back (/rewind)"),
    ("Ctrl-C", "clear the line, else interrupt, else leave"),
    ("Ctrl-D", "leave"),
    ("↑", "earlier lines; while messages wait: take the newest back to edit"),
    ("Ctrl-R", "search earlier lines"),
    ("Ctrl-G", "write in $EDITOR"),
    ("Ctrl-O", "all that was done, in full"),
    ("Ctrl-B", "the running command goes on in the background"),
    ("Ctrl-V", "the image in the clipboard"),
    ("Shift-Tab", "what runs unasked: ask, auto-edit, plan"),
    ("@", "a file or a session; !cmd runs a command, !!cmd unseen by the model"),
)


def help_(conversation: Conversation, argument: str) -> None:
    """Show what can be typed here, and what the keys do."""
    if argument:
        _one(conversation, argument.removeprefix("/"))
        return
    own = read_own_commands(conversation)
    lines = help_lines(own)
    of_ours = {f"/{name}": line for name, line in lines.items() if name in slash_commands()}
    others = {f"/{name}": line for name, line in lines.items() if name not in slash_commands()}
    conversation.print(
        *_table(of_ours, conversation.width),
        *([[], *_table(others, conversation.width)] if others else []),
        *([Span(printable(notice), "yellow")] for notice in own.notices),
        [],
        *_table(dict(_KEYS), conversation.width),
    )


def _table(entries: Mapping[str, str], width: int) -> Iterator[Line]:
    """Yield rows of names with their texts beside them, broken at words."""
    column = max(map(len, entries)) + 2
    for name, text in entries.items():
        rows = textwrap.wrap(printable(text, multiline=False), max(width - column - 1, 20)) or [""]
        for place, row in enumerate(rows):
            head = "" if place else printable(name, multiline=False)
            yield [Span(f" {head:<{column}}", "bold"), Span(row, "dim")]


def _one(conversation: Conversation, name: str) -> None:
    command = slash_commands().get(name)
    if command is None:
        _one_of_own(conversation, name)
        return
    head = f"/{name} {command.takes}".rstrip()
    conversation.print([Span(head, "bold")], *([Span(row)] for row in _paragraphs(command.help)))


def _paragraphs(text: str) -> Iterator[str]:
    """Yield each paragraph as one row, with an empty row between; the screen wraps them."""
    first, *more = text.split("\n\n")
    yield " ".join(first.split())
    for paragraph in more:
        yield from ("", " ".join(paragraph.split()))


def _one_of_own(conversation: Conversation, name: str) -> None:
    """Show a command or skill of the user's own. Raises UsageError when there is none."""
    own = read_own_commands(conversation)
    command, skill = own.commands.get(name), own.skill(name)
    if command is not None:
        head = f"/{name} {command.takes}".rstrip()
        said = [f"It says what is in {command.shown}:", *command.body.split("\n")]
    elif skill is not None:
        head = " ".join([f"/{skill.name}", *(f"{name}=…" for name in skill.inputs)])
        said = [skill.description, f"A skill: {skill.shown}"]
    else:
        raise unknown_command(name, own)
    conversation.print(
        [Span(printable(head), "bold")], *([Span(printable(row))] for row in said if row)
    )


def skills(conversation: Conversation, argument: str) -> None:
    """List the skills that are known here; /name calls one.

    Skills are Markdown files in `skills/` beside your config.toml, in `~/.agents/skills`,
    `~/.claude/skills` and `~/.codex/skills`, and in `.agents/skills` or `.claude/skills` of the
    project. A project's skills that contain more than text count only if the folder is trusted. To
    add some: `agent skills add`."""
    own = read_own_commands(conversation)
    known = own.skills
    lines = [_line(skill, skill.name in own.commands) for skill in known.found]
    for notice in known.notices:
        lines.append([Span(printable(notice), "yellow")])
    if not conversation.settings.knowledge.skills:
        lines.append([Span("knowledge.skills is off: none is read", "yellow")])
    conversation.print(*(lines or [[Span("no skills are known here: see /help skills", "dim")]]))


def _line(skill: Skill, is_shadowed: bool) -> Line:
    name = f"/{skill.name}"
    if skill.kind == "repo":
        name, use = skill.name, use_of(skill)
    elif skill.name in slash_commands():
        name, use = skill.name, f"/{skill.name} is built in; ask for it by its name"
    elif is_shadowed:
        name, use = skill.name, f"/{skill.name} is a command of yours; ask for it by its name"
    else:
        use = use_of(skill)
    about = f"  {skill.description}" if skill.description else ""
    return [
        Span(printable(name, multiline=False), "bold"),
        Span(printable(about, multiline=False)),
        Span(printable(f"  {skill.shown} · {use}", multiline=False), "dim"),
    ]


_HINT = "/queue, /queue drop N, /queue edit N, /queue hold, /queue release"


def queue(conversation: Conversation, argument: str) -> None:
    """Show what waits to be heard or done; drop N, edit N, hold it back, release it.

    What you type while the agent works waits until it is heard: at the next step (Enter), or after
    the turn (Tab, and commands). `hold` keeps all of it back until `release`."""
    match argument.split():
        case []:
            _show(conversation)
        case ["drop", place]:
            taken = _take(conversation, place)
            conversation.tell(f"dropped: {printable(taken.text, multiline=False)}")
        case ["edit", place]:
            taken = _take(conversation, place)
            conversation.prompt.put(taken.typed)
        case ["hold"]:
            held = conversation.control.waiting.hold()
            said = "waiting messages are held until /queue release" if held else "nothing waits"
            conversation.tell(said)
        case ["release"]:
            _release(conversation)
        case _:
            raise UsageError(f"/queue {argument} is not a command", hint=_HINT)


def _show(conversation: Conversation) -> None:
    control = conversation.control
    waiting = control.queued()
    lines: list[Line] = []
    for place, each in enumerate(waiting, 1):
        head, *more = printable(each.text.strip()).split("\n")
        held = [Span("held  ", "yellow")] if each.held or control.held else []
        lines.append([Span(f"{place:>3}  ", "bold"), *held, Span(head)])
        lines += [[Span(f"     {row}")] for row in more]
    conversation.print(*(lines or [[Span("nothing waits", "dim")]]))


def _take(conversation: Conversation, place: str) -> Submission:
    """Take the input at `place` out of the queue. Raises UsageError."""
    taken = conversation.control.waiting.take(number(place, "/queue drop 1") - 1)
    if taken is None:
        raise UsageError(f"no waiting message has the number {place}", hint="/queue lists it")
    return taken


def _release(conversation: Conversation) -> None:
    control = conversation.control
    before, control.held = control.held, False
    released = control.waiting.release()
    if (before or released) and not control.is_working:
        control.inputs.put(ContinueWork())
    said = "waiting messages are heard now" if before or released else "nothing is held back"
    conversation.tell(said)


def _complete_queue(conversation: Conversation, typed: str) -> Sequence[Completion]:
    verb, space, rest = typed.partition(" ")
    if not space:
        verbs = {
            "drop ": "N: forget it",
            "edit ": "N: back into the line",
            "hold": "keep all of it back",
            "release": "have it heard as before",
        }
        return [Completion(each, verbs[each]) for each in verbs if each.startswith(verb)]
    if verb not in ("drop", "edit"):
        return []
    waiting = enumerate(conversation.control.queued(), 1)
    return [
        Completion(f"{verb} {place}", each.text)
        for place, each in waiting
        if str(place).startswith(rest)
    ]


def init(conversation: Conversation, argument: str) -> None:
    """Have the agent describe this project in AGENTS.md, which every later session is given.

    Text after the name is added to the task: `/init in German`.
    """
    typed = f"/init {argument}".rstrip()
    task = f"{INIT_TASK.rstrip()}\n\n{argument}".rstrip()
    conversation.say(Submission(task), typed=typed)


SLASH_COMMANDS = {
    "help": SlashCommand(help_, takes="[COMMAND]", at_once=True),
    "skills": SlashCommand(skills, at_once=True),
    "queue": SlashCommand(
        queue, takes="[drop N|edit N|hold|release]", complete=_complete_queue, at_once=True
    ),
    "init": SlashCommand(init, takes="[WISH]"),
}
