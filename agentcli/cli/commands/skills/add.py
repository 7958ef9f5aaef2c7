"""Add skills from a folder or a git repository.

All skills found there are shown with their files and the names of their scripts; you are asked
before anything is copied. Read what you add: a skill is given to the model, and a session runs its
scripts when it sees fit, in the sandbox and under your rules. Links are never followed.

Examples:
  agent skills add ~/src/releasing --yes --replace
  agent skills add https://github.com/anthropics/skills --only pdf --only docx
  agent skills add git@example.org:team/skills.git --path python --ref v2 --project
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from agentcli.cli.options import Json, Yes, argument, option
from agentcli.cli.skill_common import ProjectFlag, target_folder
from agentcli.cli.terminal import confirmed, working
from agentcli.errors import UsageError
from agentcli.git.mirrors import CloneFailed, clone, is_url
from agentcli.knowledge.skills import SkillSource, find_sources
from agentcli.system.homes import expanded
from agentcli.system.programs import find_program, user_environ
from agentcli.ui.summary import count
from agentcli.ui.text import reveal_hidden, say_note
from agentcli.workspace.names import size_text


def add(
    source: Annotated[str, argument("SOURCE", "A folder, or the address of a git repository.")],
    only: Annotated[
        list[str] | None, option("--only NAME", "Only this skill; may be repeated.")
    ] = None,
    path: Annotated[str, option("--path FOLDER", "Look in this folder of the source.")] = "",
    ref: Annotated[str, option("--ref REF", "Branch or tag of the repository.")] = "",
    project: ProjectFlag = False,
    replace: Annotated[bool, option("--replace", "Replace skills that already exist.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    target = target_folder(project=project)
    with _fetch(source, ref) as root:
        found = _choose(_search(root, path), only or [], source)
        if not (yes and as_json):
            for skill in found:
                _show(skill, replaced=replace and (target / skill.name).exists())
        if not confirmed(f"add {count(len(found), 'skill')} to {reveal_hidden(str(target))}?", yes):
            say_note("nothing was added")
            return 1
        _copy(found, target, replace)
    if as_json:
        told = [{"name": s.name, "path": str(target / s.name), "scripts": s.scripts} for s in found]
        print(json.dumps(told, indent=2))
        return 0
    for skill in found:
        print(reveal_hidden(str(target / skill.name)))
    if project and any(skill.scripts for skill in found):
        say_note("skills with scripts take effect after: agent trust")
    return 0


@contextmanager
def _fetch(source: str, ref: str) -> Iterator[Path]:
    """Yield the folder with the skills, fetched if necessary. Raises UsageError."""
    if not is_url(source):
        if ref:
            raise UsageError("--ref is for repositories that are fetched by their address")
        root = expanded(source)
        if not root.is_dir():
            hint = "give a folder, or an address such as https://… or user@host:…"
            raise UsageError(f"there is no folder {source}", hint=hint)
        yield root.absolute()
        return
    git = find_program("git")
    if git is None:
        raise UsageError("git is not installed", hint="install it, or add a folder")
    with TemporaryDirectory(prefix="agent-skills-") as made:
        # The folder is named like the repository: a skill without a name is called by its folder.
        name = source.rstrip("/").removesuffix(".git").replace(":", "/").rpartition("/")[2]
        root = Path(made) / (name if name.strip(".") else "skills")
        with working(f"fetching {reveal_hidden(source)}"):
            try:
                clone(git, source, root, user_environ(), ref)
            except CloneFailed as why:
                raise UsageError(f"{source} can't be fetched: {why}") from why
        yield root


def _search(root: Path, path: str) -> list[SkillSource]:
    """Return the skills in `path` of the source. Raises UsageError when there is no such folder."""
    place = (root / path).resolve()
    if not place.is_relative_to(root.resolve()) or not place.is_dir():
        raise UsageError(f"there is no folder {path} in the source")
    return find_sources(root if not path else place)


def _choose(found: Sequence[SkillSource], only: Sequence[str], source: str) -> list[SkillSource]:
    """Return the skills to add, all or those of `only`. Raises UsageError when one is missing."""
    if not found:
        raise UsageError(f"{source} has no skill: no folder with a SKILL.md is in it")
    names = {skill.name.casefold() for skill in found}
    if missing := [name for name in only if name.casefold() not in names]:
        listed = ", ".join(skill.name for skill in found)
        raise UsageError(f"{source} has no skill {missing[0]!r}", hint=f"it has: {listed}")
    wanted = {name.casefold() for name in only} or names
    return [skill for skill in found if skill.name.casefold() in wanted]


def _show(skill: SkillSource, *, replaced: bool) -> None:
    """Show the skill on stderr, for the user to decide."""
    there = " (in place of the one that is there)" if replaced else ""
    facts = f"{count(len(skill.files), 'file')}, {size_text(skill.bytes)}"
    print(f"{reveal_hidden(skill.name)}{there}: {facts}", file=sys.stderr)
    if skill.description:
        print(f"  {reveal_hidden(skill.description)}", file=sys.stderr)
    for name in skill.scripts:
        print(f"  script: {reveal_hidden(name)}", file=sys.stderr)


def _copy(found: Sequence[SkillSource], target: Path, replace: bool) -> None:
    """Copy all of them or, if one exists already, none. Raises UsageError."""
    if not replace:
        for skill in found:
            if (target / skill.name).exists():
                hint = "--replace puts the new one in its place; --only leaves others out"
                raise UsageError(f"{target / skill.name} already exists", hint=hint)
    for skill in found:
        skill.copy_to(target / skill.name, replace=replace)


COMMAND = add
