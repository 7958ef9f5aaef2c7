"""Skills and microagents: Markdown files with a header that says when they apply.

The model always gets `repo` skills, `knowledge` skills when a message contains one of their
`triggers`, and `task` skills when the user enters `/name`. Of each other skill it gets one line,
and reads the file if it fits.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp
from typing import Literal, NoReturn

from agentcli.errors import UsageError, os_error_text
from agentcli.knowledge.definitions import FrontMatter, parse, split_arguments
from agentcli.knowledge.instructions import shown_path
from agentcli.workspace.folders import walk
from agentcli.workspace.private import open_regular, remove_tree
from agentcli.workspace.text import UnreadableText, nothing_against, read_bounded

Kind = Literal["repo", "knowledge", "task", "listed"]

SKILL_FILE = "SKILL.md"
TEXT_SUFFIXES = (".md", ".txt")
MAX_SKILL_BYTES = 16 * 1024
"""Most bytes shown of one skill; of a longer one the model is told where to read on."""
MOST_SKILLS = 100
_MOST_ENTRIES = 1_000
_DEEPEST = 3
_MOST_NOTICES = 10
_MOST_TRIGGERS = 30
_LONGEST_TRIGGER = 80
_LONGEST_MESSAGE = 100_000
_NAME = r"[\w][\w.-]{0,63}"
_UNSPACED = "[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
"""Letters of scripts that put no spaces between words."""
# Compiled on first use: most sessions call no task.
_CALL = r"\s*/([\w][\w.-]{0,63})(?:\s+(.*))?\Z"
_PLACE = r"\$\{\s*(\w+)\s*\}|\$ARGUMENTS\b"


@dataclass(frozen=True)
class Skill:
    """A skill or microagent. `shown` is its file's path for people and the model; `inputs` are the
    inputs of a task, by name with their descriptions. A skill in a SKILL.md owns its `folder`:
    `files` are the others there, up to a limit, and `scripts` are those that are not texts."""

    name: str
    kind: Kind
    shown: str
    body: str
    description: str = ""
    version: str = ""
    triggers: tuple[str, ...] = ()
    inputs: Mapping[str, str] = field(default_factory=dict)
    path: Path = Path()
    of_project: bool = False

    @property
    def folder(self) -> Path | None:
        return self.path.parent if self.path.name == SKILL_FILE else None

    @property
    def files(self) -> list[str]:
        """Names of the files beside SKILL.md; the folder is read at each call."""
        folder = self.folder
        if folder is None:
            return []
        return [name for name in files_below(folder, _MOST_ENTRIES) if name != SKILL_FILE]

    @property
    def scripts(self) -> list[str]:
        return [name for name in self.files if not name.endswith(TEXT_SUFFIXES)]

    def is_triggered(self, message: str) -> bool:
        """Return whether `message` contains one of the triggers, ignoring case."""
        text = message[:_LONGEST_MESSAGE]
        return any(_trigger(trigger).search(text) for trigger in self.triggers)


@dataclass(frozen=True)
class TaskCall:
    """A skill that a message calls by `/name`. `text` is the skill with the given inputs filled in;
    `missing` are the inputs that were not given."""

    skill: Skill
    text: str
    missing: tuple[str, ...] = ()


@dataclass
class Skills:
    """All skills found, each name once. `notices` tell the user what was left out."""

    found: list[Skill] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def of_kind(self, kind: Kind) -> list[Skill]:
        return [skill for skill in self.found if skill.kind == kind]

    def triggered(self, message: str) -> list[Skill]:
        """Return the `knowledge` skills that `message` triggers."""
        return [skill for skill in self.of_kind("knowledge") if skill.is_triggered(message)]

    def called(self, message: str) -> TaskCall | None:
        """Return the call in `message` if it begins with `/name` of a known skill."""
        if not message.lstrip().startswith("/"):
            return None
        match = re.match(_CALL, message[:_LONGEST_MESSAGE], re.DOTALL)
        if match is None:
            return None
        wanted = match[1].casefold()
        for skill in self.found:
            if skill.kind != "repo" and skill.name.casefold() == wanted:
                return _call(skill, (match[2] or "").strip())
        return None


def load_skills(
    user_folders: Sequence[Path],
    project_folders: Sequence[tuple[Path, Path]],
    disabled: Collection[str] = (),
    trusted: Callable[[Path], bool] = lambda folder: True,
    objection: Callable[[Path], str] = nothing_against,
) -> Skills:
    """Return the skills below these folders. Of several with one name the first wins, so that a
    project can't replace a skill of the user. Each project folder comes with the folder that links
    in it must stay inside. A damaged skill is left out with a notice, and so is one with scripts
    if its project's folder is not `trusted`. `objection` says why a project's file may not be
    read."""
    skills = Skills()
    known = {name.casefold() for name in disabled}
    seen: set[Path] = set()
    for folder, within in [*((f, None) for f in user_folders), *project_folders]:
        for path in _files(folder, within):
            if len(skills.found) >= MOST_SKILLS:
                skills.notices.append(
                    f"more than {MOST_SKILLS} skills: the rest of {folder} is left out"
                )
                return skills
            if len(skills.notices) >= _MOST_NOTICES:
                return skills
            if Path(os.path.realpath(path)) in seen:
                continue
            if within is not None and _has_scripts(path) and not trusted(_project_of(folder)):
                skills.notices.append(
                    f"{shown_path(path, within)} is left out, as it comes with scripts and "
                    f"{_project_of(folder)} is not trusted: see agent trust"
                )
                continue
            try:
                against = nothing_against if within is None else objection
                skill = _read(path, within, seen, against)
            except UnreadableText as why:
                skills.notices.append(f"{shown_path(path, within)} {why}; it is left out")
                continue
            if skill is not None and skill.name.casefold() not in known:
                known.add(skill.name.casefold())
                skills.found.append(skill)
    return skills


def _project_of(folder: Path) -> Path:
    """Return the project that `folder`, one of PROJECT_SKILL_FOLDERS, belongs to."""
    return folder.parents[1]


def _has_scripts(path: Path) -> bool:
    """Return whether there is anything but text beside a SKILL.md, at any depth. Too many files to
    look through count as scripts."""
    if path.name != SKILL_FILE:
        return False
    found = files_below(path.parent, _MOST_ENTRIES + 1)
    return len(found) > _MOST_ENTRIES or not all(name.endswith(TEXT_SUFFIXES) for name in found)


def files_below(folder: Path, most: int) -> list[str]:
    """Return up to `most` names of files at any depth, relative to `folder` and sorted. Links are
    not followed and count as files."""
    found: list[str] = []
    left = most
    for place, folders, files in walk(folder):
        folders.sort()
        links = [name for name in folders if Path(place, name).is_symlink()]
        left -= len(folders) + len(files)
        found += (os.path.relpath(f"{place}/{name}", folder) for name in (*files, *links))
        if left < 0:
            break
    return sorted(found)[:most]


def _files(folder: Path, within: Path | None) -> Iterator[Path]:
    """Yield the Markdown files below `folder`, ordered by name; of a folder with a SKILL.md, only
    that file."""
    left = _MOST_ENTRIES
    waiting = [(folder, 0)]
    while waiting and left > 0:
        place, depth = waiting.pop(0)
        entries = _entries(place, within, left)
        left -= len(entries)
        if any(entry.name == SKILL_FILE for entry in entries):
            yield place / SKILL_FILE
            continue
        for entry in entries:
            if _is_folder(entry):
                if depth < _DEEPEST and not entry.name.startswith("."):
                    waiting.append((place / entry.name, depth + 1))
            elif entry.name.endswith(".md") and entry.name.lower() != "readme.md":
                yield place / entry.name


def _entries(folder: Path, within: Path | None, most: int) -> list[os.DirEntry[str]]:
    """Return at most `most` entries of `folder`, sorted by name; none if the folder can't be read
    or leads out of `within`."""
    with suppress(OSError, RuntimeError):
        if within is None or folder.resolve(strict=True).is_relative_to(within):
            with os.scandir(folder) as scan:
                return sorted(islice(scan, most), key=lambda entry: entry.name)
    return []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        # It may be a link to itself; reading it will report what is wrong.
        return False


def _read(
    path: Path, within: Path | None, seen: set[Path], objection: Callable[[Path], str]
) -> Skill | None:
    """Read the skill at `path`; None if it is empty or was `seen`. Raises UnreadableText."""
    read = read_bounded(path, MAX_SKILL_BYTES, within, objection)
    if read is None or read.path in seen or not read.text.strip():
        return None
    seen.add(read.path)
    header = parse(read.text)
    shown = shown_path(path, within)
    body = header.body.strip()
    if read.cut:
        body += f"\n[… the rest of {read.size:,} bytes is in {shown} …]"
    stem = path.parent.name if path.name == SKILL_FILE else path.stem
    triggers = header.texts("triggers")
    inputs = _inputs(header)
    return Skill(
        name=skill_name(header, stem),
        kind=_kind(header, triggers, inputs, is_skill=path.name == SKILL_FILE),
        shown=shown,
        body=body,
        description=header.text("description"),
        version=header.text("version")[:40],
        triggers=tuple(t for t in triggers if len(t) <= _LONGEST_TRIGGER)[:_MOST_TRIGGERS],
        inputs=inputs,
        path=path,
        of_project=within is not None,
    )


def skill_name(header: FrontMatter, stem: str) -> str:
    """Return the skill's name, from its header or else from its file."""
    name = header.text("name") or stem
    if re.fullmatch(_NAME, name):
        return name
    return re.sub(r"[^\w.-]+", "-", name).strip("-.")[:64] or "unnamed"


def _kind(
    header: FrontMatter, triggers: Sequence[str], inputs: Mapping[str, str], *, is_skill: bool
) -> Kind:
    """Return the kind of a skill. Raises UnreadableText for an unknown type."""
    named = header.text("type").casefold().removesuffix("_agent")
    if named in ("repo", "knowledge", "task"):
        return named  # type: ignore[return-value]
    if named:
        raise UnreadableText(f"has the unknown type {named[:40]!r}: use repo, knowledge or task")
    if inputs:
        return "task"
    if triggers:
        return "knowledge"
    # A microagent without a header is a note on the repository.
    return "listed" if is_skill or header.text("description") else "repo"


def _inputs(header: FrontMatter) -> dict[str, str]:
    tables = header.tables("inputs")
    return {
        table["name"]: " ".join(table.get("description", "").split())
        for table in tables
        if re.fullmatch(r"\w{1,64}", table.get("name", ""))
    }


def _trigger(trigger: str) -> re.Pattern[str]:
    """Compile a trigger. It matches whole words only, in scripts that separate words; any
    whitespace matches its blanks."""
    before = r"(?<!\w)" if _is_of_a_word(trigger[0]) else ""
    after = r"(?!\w)" if _is_of_a_word(trigger[-1]) else ""
    words = r"\s+".join(map(re.escape, trigger.split()))
    return re.compile(f"{before}{words}{after}", re.IGNORECASE)


def _is_of_a_word(char: str) -> bool:
    return (char.isalnum() or char == "_") and not re.match(_UNSPACED, char)


def _call(skill: Skill, arguments: str) -> TaskCall:
    given = _values_of_inputs(list(skill.inputs), arguments)
    missing = tuple(name for name in skill.inputs if not given.get(name))

    def value(match: re.Match[str]) -> str:
        return arguments if match[1] is None else given.get(match[1], match[0])

    text = re.sub(_PLACE, value, skill.body)
    placed = {match[1] for match in re.finditer(_PLACE, skill.body)}
    rest = [f"{name}: {said}" for name, said in given.items() if name not in placed]
    return TaskCall(skill, "\n".join([text, *rest]), missing)


def _values_of_inputs(names: Sequence[str], arguments: str) -> dict[str, str]:
    """Return the value that `arguments` give each name: as name=value anywhere, or else in order;
    the last name takes all remaining words."""
    given: dict[str, str] = {}
    rest = []
    for word in split_arguments(arguments):
        name, equals, value = word.partition("=")
        if equals and name in names:
            given[name] = value
        else:
            rest.append(word)
    free = [name for name in names if name not in given]
    for name in free[:-1]:
        if rest:
            given[name] = rest.pop(0)
    if free and rest:
        # A single input takes the arguments verbatim.
        given[free[-1]] = arguments if len(names) == 1 else " ".join(rest)
    return given


MAX_FILES = 1_000
MAX_BYTES = 50_000_000
"""Most bytes of one skill."""
_MOST_FOLDERS = 10_000
_LEFT_OUT = frozenset({".git", "__pycache__", ".DS_Store"})
_SKILL_BYTES = 1_000_000


@dataclass(frozen=True)
class SourceFile:
    """A file of a skill. `name` is relative to the skill's folder; `bytes` is its size."""

    name: str
    bytes: int
    runs: bool
    """Whether it may be run: it is executable, or not a text file."""


@dataclass(frozen=True)
class SkillSource:
    """A folder with a SKILL.md, all of whose files can be copied."""

    name: str
    description: str
    folder: Path
    files: tuple[SourceFile, ...]

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def scripts(self) -> list[str]:
        return [file.name for file in self.files if file.runs]

    def copy_to(self, target: Path, *, replace: bool = False) -> None:
        """Copy the skill to `target`, whole or not at all. Raises UsageError if `target` exists and
        `replace` is not set, or if the files have changed in the meantime."""
        if os.path.lexists(target) and not replace:
            raise UsageError(f"{target} already exists", hint="--replace overwrites it")
        try:
            target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            made = Path(mkdtemp(prefix=".adding-", dir=target.parent))
        except OSError as error:
            raise UsageError(f"{target} can't be made: {os_error_text(error)}") from error
        try:
            self._fill(made)
            made.chmod(0o755)
            remove_skill(target)
            made.rename(target)
        except OSError as error:
            raise UsageError(f"{self.name} can't be copied: {os_error_text(error)}") from error
        finally:
            remove_tree(made)

    def _fill(self, made: Path) -> None:
        """Copy the files into `made`. Raises OSError, UsageError."""
        for file in self.files:
            place = made / file.name
            place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            with open_regular(self.folder / file.name) as source:
                mode = 0o755 if os.fstat(source.fileno()).st_mode & 0o100 else 0o644
                data = source.read(file.bytes + 1)
            if len(data) != file.bytes:
                raise UsageError(f"{file.name} changed while it was copied", hint="try again")
            place.write_bytes(data)
            place.chmod(mode)


def remove_skill(place: Path) -> None:
    """Remove a skill's folder with everything in it, or just the link to one. Raises OSError."""
    if place.is_symlink() or place.is_file():
        place.unlink()
    elif place.is_dir():
        remove_tree(place)
        if place.exists():
            raise OSError(f"{place} could not be removed completely")


def find_sources(root: Path) -> list[SkillSource]:
    """Return the skills in `root`: the folder itself if it is one, else folders below it. Raises
    UsageError for a skill that contains links, is too large or has no valid SKILL.md."""
    found = [_source(folder) for folder in _skill_folders(root)]
    if len(found) > MOST_SKILLS:
        raise UsageError(f"{root} has more than {MOST_SKILLS} skills", hint="name a folder in it")
    names = [source.name.casefold() for source in found]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise UsageError(f"two skills are called {twice}", hint="name the folder of one of them")
    return found


def _skill_folders(root: Path) -> Iterator[Path]:
    """Yield the folders with a SKILL.md, except those inside the folder of another skill."""
    for seen, (place, folders, files) in enumerate(walk(root)):
        if seen >= _MOST_FOLDERS:
            raise UsageError(f"{root} has too many folders to search", hint="name a folder in it")
        if SKILL_FILE in files:
            folders.clear()
            yield Path(place)
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)


def _source(folder: Path) -> SkillSource:
    """Read the skill in `folder`. Raises UsageError."""
    files = tuple(sorted(_source_files(folder), key=lambda file: file.name))
    if sum(file.bytes for file in files) > MAX_BYTES:
        raise UsageError(f"{folder} is larger than {MAX_BYTES:,} bytes, the limit for one skill")
    try:
        read = read_bounded(folder / SKILL_FILE, _SKILL_BYTES, folder.resolve())
        if read is None or not read.text.strip():
            raise UnreadableText("is empty")
        header = parse(read.text)
    except UnreadableText as why:
        raise UsageError(f"{folder / SKILL_FILE} {why}") from why
    return SkillSource(
        skill_name(header, folder.resolve().name), header.text("description"), folder, files
    )


def _source_files(root: Path) -> Iterator[SourceFile]:
    """Yield the files below `root`. Raises UsageError for anything but files and folders: a link
    may lead anywhere on this machine, and a pipe has no content."""
    count = 0
    for place, folders, files in walk(root, _refuse):
        folders[:] = [name for name in folders if name not in _LEFT_OUT]
        for entry in (*folders, *(name for name in files if name not in _LEFT_OUT)):
            path = Path(place, entry)
            name = os.path.relpath(path, root)
            info = path.lstat()
            if not name.isprintable():
                raise UsageError(f"{root} has a file with an odd name: {name!r}")
            if stat.S_ISLNK(info.st_mode):
                raise UsageError(f"{root}/{name} is a link, and links are not followed")
            if stat.S_ISDIR(info.st_mode):
                continue
            if not stat.S_ISREG(info.st_mode):
                raise UsageError(f"{root}/{name} is neither a file nor a folder")
            count += 1
            if count > MAX_FILES:
                raise UsageError(f"{root} has more than {MAX_FILES:,} files")
            runs = bool(info.st_mode & 0o111) or not name.endswith(TEXT_SUFFIXES)
            yield SourceFile(name, info.st_size, runs)


def _refuse(error: OSError) -> NoReturn:
    raise UsageError(f"a folder can't be read: {os_error_text(error)}") from error
