"""Show one skill: its text, when it applies, and its files.

Examples:
  agent skills show releasing
"""

from __future__ import annotations

import json
from difflib import get_close_matches
from typing import Annotated

from agentcli.cli.options import Json, argument
from agentcli.cli.skill_common import facts, known_skills, use_of
from agentcli.errors import UsageError
from agentcli.knowledge.skills import Skill, Skills
from agentcli.ui.text import printable, say


def show(
    name: Annotated[str, argument("SKILL", "As in agent skills list.")],
    as_json: Json = False,
) -> None:
    skill = _find(known_skills(), name)
    if as_json:
        print(json.dumps({**facts(skill), "text": skill.body}, indent=2))
        return
    scripts = set(skill.scripts)
    lines = [f"{skill.name} {skill.version}".rstrip(), skill.description, f"file: {skill.path}"]
    lines.append(f"used: {use_of(skill)}")
    lines += [f"input: {name}  {about}".rstrip() for name, about in skill.inputs.items()]
    lines += [f"{'script' if file in scripts else 'text'}: {file}" for file in skill.files]
    for line in filter(None, lines):
        say(printable(line, multiline=False))
    say(f"\n{skill.body}")


def _find(known: Skills, name: str) -> Skill:
    """Return the skill called `name`. Raises UsageError."""
    wanted = name.removeprefix("/").casefold()
    for skill in known.found:
        if skill.name.casefold() == wanted:
            return skill
    near = get_close_matches(wanted, [skill.name for skill in known.found], 1, 0.6)
    hint = f"did you mean {near[0]}?" if near else "see: agent skills list"
    raise UsageError(f"there is no skill {name!r} here", hint=hint)


COMMAND = show
