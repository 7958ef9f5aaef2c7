"""List the skills that a session in this folder knows.

Yours come first: those beside your settings and, if [knowledge] skill_folders says so, those of
other agents (~/.agents/skills, ~/.claude/skills, ~/.codex/skills); then those of the project. Of
two skills with the same name, the first counts.

Examples:
  agent skills list
  agent skills list --json
"""

from __future__ import annotations

import json
import sys

from agentcli.cli.options import Json
from agentcli.cli.skill_common import facts, known_skills, use_of
from agentcli.ui.summary import count
from agentcli.ui.text import printable, say, say_note


def list_skills(as_json: Json = False) -> None:
    known = known_skills()
    if as_json:
        print(json.dumps([facts(skill) for skill in known.found], indent=2))
    for skill in () if as_json else known.found:
        scripts = f" · {count(len(skill.scripts), 'script')}" if skill.scripts else ""
        about = f"  {skill.description}" if skill.description else ""
        say(printable(f"{skill.name}{about}", multiline=False))
        say(printable(f"  {skill.shown} · {use_of(skill)}{scripts}", multiline=False))
    for notice in known.notices:
        say_note(notice)
    if not (known.found or as_json):
        print("there are no skills here; to add some: agent skills add --help", file=sys.stderr)


COMMAND = list_skills
