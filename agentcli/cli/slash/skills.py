"""List the skills that are known here; /name calls one.

Skills are Markdown files in `skills/` beside your config.toml, in `~/.agents/skills`,
`~/.claude/skills` and `~/.codex/skills`, and in `.agents/skills` or `.claude/skills` of the
project. A project's skills that contain more than text count only if the folder is trusted. To add
some: `agent skills add`.
"""

from __future__ import annotations

from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.skill_common import use_of
from agentcli.cli.slash_command import SlashCommand, read_own_commands, slash_commands
from agentcli.knowledge.skills import Skill
from agentcli.ui.text import Line, Span, printable


def skills(conversation: Conversation, argument: str) -> None:
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


SLASH_COMMAND = SlashCommand(skills, at_once=True)
