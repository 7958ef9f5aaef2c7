"""Remove a skill that agent skills add has added.

Its folder is removed with everything in it.

Examples:
  agent skills remove releasing --yes
"""

from __future__ import annotations

import json
from typing import Annotated

from agentcli.cli.options import Json, Yes, argument
from agentcli.cli.skill_common import ProjectFlag, known_skills, target_folder
from agentcli.cli.terminal import confirmed
from agentcli.errors import UsageError, os_error_text
from agentcli.knowledge.skills import SKILL_FILE, remove_skill
from agentcli.ui.text import reveal_hidden, say_note


def remove(
    name: Annotated[str, argument("SKILL", "As in agent skills list.")],
    project: ProjectFlag = False,
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    target = target_folder(project=project)
    place = target / name
    if place.parent != target or name.startswith(".") or not (place / SKILL_FILE).is_file():
        raise UsageError(f"{target} has no skill {name!r}", hint=_where(name, project))
    if not confirmed(f"remove {reveal_hidden(str(place))} and everything in it?", yes):
        say_note("nothing was removed")
        return 1
    try:
        remove_skill(place)
    except OSError as error:
        raise UsageError(f"{place} can't be removed: {os_error_text(error)}") from error
    print(
        json.dumps({"removed": str(place)}) if as_json else f"removed {reveal_hidden(str(place))}"
    )
    return 0


def _where(name: str, project: bool) -> str:
    """Say where a skill of this name is, if it is elsewhere."""
    for skill in known_skills().found:
        if skill.name == name and skill.of_project is not project:
            if skill.of_project:
                return "it belongs to the project: add --project"
            return "it is your own: leave out --project"
        if skill.name == name:
            return f"it is in {skill.path.parent}: remove it there"
    return "see: agent skills list"


COMMAND = remove
