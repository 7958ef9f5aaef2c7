"""Skills: list, show, add, remove. docs/knowledge.md explains them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from agentcli.app.configuration.places import skill_folders, user_skills
from agentcli.app.configuration.trust import is_trusted, load_with_trust, require_outside_session
from agentcli.cli.options import Json, Yes, argument, option
from agentcli.cli.terminal import confirmed, working
from agentcli.cli.user_paths import here
from agentcli.errors import UsageError, os_error_text
from agentcli.git.mirrors import CloneFailed, clone, is_url
from agentcli.knowledge.instructions import repository_root
from agentcli.knowledge.knowledge import read_skills
from agentcli.knowledge.skills import SKILL_FILE, Skill, Skills, SkillSource, find_sources
from agentcli.knowledge.skills import remove_skill as remove_folder
from agentcli.system.homes import expanded
from agentcli.system.programs import find_program, user_environ
from agentcli.ui.summary import count
from agentcli.ui.text import printable, reveal_hidden, say, say_note
from agentcli.workspace.names import PROJECT_SKILL_FOLDERS, size_text

ProjectFlag = Annotated[
    bool, option("--project", "In .agents/skills of this project, not in your own.")
]


def known_skills() -> Skills:
    """Return the skills that a session in this folder knows. Raises ConfigError."""
    environ, workspace = user_environ(), here()
    settings = load_with_trust(environ, workspace).settings.values.knowledge
    folders = skill_folders(settings, environ)
    return read_skills(workspace, settings, folders, lambda place: is_trusted(environ, place))


def target_folder(*, project: bool) -> Path:
    """Return the folder in which skills are added and removed. Raises UsageError inside a session:
    only the user decides what sessions are told."""
    require_outside_session(user_environ(), "no session may add or remove skills")
    if project:
        root = repository_root(here())
        folder = root / PROJECT_SKILL_FOLDERS[0]
        if not folder.resolve().is_relative_to(root.resolve()):
            raise UsageError(f"{folder} leads out of the project")
        return folder
    return user_skills(user_environ())


def facts(skill: Skill) -> dict[str, Any]:
    """Return the facts about a skill for --json."""
    return {
        "name": skill.name,
        "kind": skill.kind,
        "description": skill.description,
        "version": skill.version,
        "triggers": list(skill.triggers),
        "inputs": dict(skill.inputs),
        "from": "project" if skill.of_project else "user",
        "path": str(skill.path),
        "files": skill.files,
        "scripts": skill.scripts,
    }


def use_of(skill: Skill) -> str:
    """Say when the model gets the skill."""
    match skill.kind:
        case "repo":
            return "always told"
        case "knowledge":
            return f"told when you say {', '.join(skill.triggers)}"
        case "task":
            return "called by name"
    return "read when it fits, or called by name"


def list_skills(as_json: Json = False) -> None:
    """List the skills that a session in this folder knows.

    Yours come first: those beside your settings and, if [knowledge] skill_folders says so, those of
    other agents (~/.agents/skills, ~/.claude/skills, ~/.codex/skills); then those of the project.
    Of two skills with the same name, the first counts.

    Examples:
      agent skills list
      agent skills list --json
    """
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


def show_skill(
    name: Annotated[str, argument("SKILL", "As in agent skills list.")],
    as_json: Json = False,
) -> None:
    """Show one skill: its text, when it applies, and its files.

    Examples:
      agent skills show releasing
    """
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


def add_skills(
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
    """Add skills from a folder or a git repository.

    All skills found there are shown with their files and the names of their scripts; you are asked
    before anything is copied. Read what you add: a skill is given to the model, and a session runs
    its scripts when it sees fit, in the sandbox and under your rules. Links are never followed.

    Examples:
      agent skills add ~/src/releasing --yes --replace
      agent skills add https://github.com/anthropics/skills --only pdf --only docx
      agent skills add git@example.org:team/skills.git --path python --ref v2 --project
    """
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


def remove_skill(
    name: Annotated[str, argument("SKILL", "As in agent skills list.")],
    project: ProjectFlag = False,
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """Remove a skill that agent skills add has added.

    Its folder is removed with everything in it.

    Examples:
      agent skills remove releasing --yes
    """
    target = target_folder(project=project)
    place = target / name
    if place.parent != target or name.startswith(".") or not (place / SKILL_FILE).is_file():
        raise UsageError(f"{target} has no skill {name!r}", hint=_where(name, project))
    if not confirmed(f"remove {reveal_hidden(str(place))} and everything in it?", yes):
        say_note("nothing was removed")
        return 1
    try:
        remove_folder(place)
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


COMMAND = {
    "list": list_skills,
    "show": show_skill,
    "add": add_skills,
    "remove": remove_skill,
}
