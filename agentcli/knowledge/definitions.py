"""Parse the header of a skill or microagent: YAML between two lines of three dashes."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from agentcli.workspace.text import UnreadableText, read_bounded

_HEADER = re.compile(r"\A\s*---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_LARGEST_HEADER = 8 * 1024
_MOST_ITEMS = 50

Value = str | tuple[str | dict[str, str], ...]


@dataclass(frozen=True)
class FrontMatter:
    """A parsed header and the text after it. Every value is text as written: YAML's numbers, dates
    and booleans are not interpreted. Lists hold texts or tables of texts; values nested deeper are
    left out."""

    values: dict[str, Value] = field(default_factory=dict)
    body: str = ""

    def text(self, key: str) -> str:
        value = self.values.get(key, "")
        return " ".join(value.split()) if isinstance(value, str) else ""

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts; a single text is split at its commas."""
        value = self.values.get(key, ())
        items = value.split(",") if isinstance(value, str) else value
        texts = (" ".join(item.split()) for item in items if isinstance(item, str))
        return tuple(text for text in texts if text)

    def tables(self, key: str) -> tuple[dict[str, str], ...]:
        """Return a list of tables; a plain text in it becomes a table with just that name."""
        value = self.values.get(key, ())
        items = () if isinstance(value, str) else value
        return tuple({"name": item} if isinstance(item, str) else item for item in items)


def parse(text: str) -> FrontMatter:
    """Split `text` into its header and body; without a header, all of it is the body. Raises
    UnreadableText if the header is damaged or not a table."""
    match = _HEADER.match(text)
    if match is None:
        if re.match(r"\A\s*---[ \t]*\n", text):
            raise UnreadableText("begins with --- but has no second line of --- after its header")
        return FrontMatter(body=text)
    if len(match[1]) > _LARGEST_HEADER:
        raise UnreadableText(f"has a header of more than {_LARGEST_HEADER // 1024} kB")
    data = _loaded(match[1])
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise UnreadableText("has a header that is not made of lines like name: value")
    values = {key: _plain(value) for key, value in data.items() if isinstance(key, str)}
    return FrontMatter(values, text[match.end() :])


def _loaded(header: str) -> object:
    import yaml

    try:
        # The base loader makes only texts, lists and tables, so a header can't create objects.
        return yaml.load(header, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" on line {mark.line + 2}" if mark else ""
        problem = (error.problem or "it is not valid YAML").replace("\n", " ")
        raise UnreadableText(f"has a damaged header{where}: {problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UnreadableText("has a damaged header: it is not valid YAML") from error


def _plain(value: object) -> Value:
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ()
    items = (item for item in value[:_MOST_ITEMS] if isinstance(item, str | dict))
    return tuple(item if isinstance(item, str) else _texts_of(item) for item in items)


def _texts_of(table: dict[object, object]) -> dict[str, str]:
    return {k: v for k, v in table.items() if isinstance(k, str) and isinstance(v, str)}


def user_texts(
    folder: Path, suffixes: tuple[str, ...], max_bytes: int, most: int, notices: list[str]
) -> Iterator[tuple[str, str]]:
    """Yield path and text of the first `most` files in a folder of the user's own, where links are
    followed; add what is left out to `notices`."""
    paths: list[Path] = []
    with suppress(OSError):
        paths = sorted(path for path in folder.iterdir() if path.suffix in suffixes)
    for path in paths[:most]:
        try:
            read = read_bounded(path, max_bytes, None)
            if read is not None and read.cut:
                raise UnreadableText(f"has more than {max_bytes // 1024} kB")
            if read is not None:
                yield str(path), read.text
        except UnreadableText as why:
            notices.append(f"{path} {why}; it is left out")


def project_texts(
    files: Mapping[str, bytes], suffixes: tuple[str, ...], most: int
) -> Iterator[tuple[str, str]]:
    """Yield path and text of the first `most` files of a project, which must be trusted already."""
    for shown in sorted(name for name in files if name.endswith(suffixes))[:most]:
        yield shown, files[shown].decode("utf-8", "replace")


def split_arguments(text: str) -> list[str]:
    """Split arguments as a shell does, or at blanks if their quotes don't match."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


Whose = Literal["yours", "project"]

MAX_COMMAND_BYTES = 64 * 1024
MOST_COMMANDS = 200
_SUFFIXES = (".md",)
_COMMAND_NAME = re.compile(r"[\w-]{1,64}")
_PLACE = re.compile(r"\$(?:ARGUMENTS\b|([1-9])(?!\d))")


@dataclass(frozen=True)
class OwnCommand:
    """A command from a Markdown file. `takes` is its author's hint at the arguments; `shown` says
    where the file is."""

    name: str
    whose: Whose
    shown: str
    body: str
    description: str = ""
    takes: str = ""

    @classmethod
    def of(cls, name: str, whose: Whose, shown: str, text: str) -> OwnCommand:
        """Parse a command's file. Raises UnreadableText for a bad name, a damaged header or an
        empty body."""
        header = parse(text)
        body = header.body.strip()
        if not _COMMAND_NAME.fullmatch(name):
            raise UnreadableText("has a name that is not made of letters, digits, _ and -")
        if not body:
            raise UnreadableText("has no text")
        description = header.text("description") or body.partition("\n")[0]
        return cls(name, whose, shown, body, description, header.text("argument-hint"))

    def text(self, arguments: str) -> str:
        """Return the text to send. $ARGUMENTS stands for everything after the command's name, and
        $1 … $9 for its words, split as by a shell. If the text uses none of these, the arguments
        are appended."""
        words = split_arguments(arguments)

        def value(place: re.Match[str]) -> str:
            if place[1] is None:
                return arguments
            number = int(place[1])
            return words[number - 1] if number <= len(words) else ""

        text, count = _PLACE.subn(value, self.body)
        return text if count or not arguments else f"{text}\n\n{arguments}"


def commands_of_user(folder: Path, notices: list[str]) -> Iterator[OwnCommand]:
    """Yield the commands in the user's own folder; add what is left out to `notices`."""
    texts = user_texts(folder, _SUFFIXES, MAX_COMMAND_BYTES, MOST_COMMANDS, notices)
    return _commands(texts, "yours", notices)


def commands_of_project(files: Mapping[str, bytes], notices: list[str]) -> Iterator[OwnCommand]:
    """Yield the commands among `files`, by path in the project, which must be trusted already."""
    return _commands(project_texts(files, _SUFFIXES, MOST_COMMANDS), "project", notices)


def _commands(
    texts: Iterable[tuple[str, str]], whose: Whose, notices: list[str]
) -> Iterator[OwnCommand]:
    for shown, text in texts:
        try:
            yield OwnCommand.of(Path(shown).stem, whose, shown, text)
        except UnreadableText as why:
            notices.append(f"{shown} {why}; it is left out")


MAX_AGENT_BYTES = 64 * 1024
MOST_AGENTS = 50
SUFFIXES = (".md", ".toml")
_AGENT_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_MOST = 1_000_000


def _names(given: object) -> object:
    """Split text with commas between names; case does not matter."""
    names = given.split(",") if isinstance(given, str) else given
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ValueError("it is not a list of names")
    return tuple(name.strip().lower() for name in names if name.strip())


def _no_bool(given: object) -> object:
    if isinstance(given, bool):
        raise ValueError("it is not a number")
    return given


_NUMBER = BeforeValidator(_no_bool)


@dataclass(frozen=True)
class AgentDefinition:
    """An agent that work can be delegated to. `tools` are those of its parent's tools that it may
    use; None means all. `model` is a role of [models] or provider/model; "" means the model for
    children. `max_turns` 0 means as the settings say, `max_budget_usd` None what the parent has
    left. `shown` says where the agent is defined."""

    name: str
    description: str = ""
    prompt: str = ""
    tools: Annotated[tuple[str, ...], BeforeValidator(_names)] | None = None
    model: str = ""
    max_turns: Annotated[int, _NUMBER, Field(gt=0, lt=_MOST)] = 0
    max_budget_usd: Annotated[float, _NUMBER, Field(gt=0, lt=_MOST)] | None = None
    shown: str = "built in"


EXPLORER = AgentDefinition("explorer", "reads only", tools=("read", "grep", "glob", "recall"))
CODER = AgentDefinition("coder")
_KEYS = sorted({field.name for field in fields(AgentDefinition)} - {"shown"})


@dataclass(frozen=True)
class Agents:
    """The known agents by name. `notices` tell the user what was left out."""

    known: Mapping[str, AgentDefinition] = field(default_factory=dict)
    notices: tuple[str, ...] = ()


def find_agents(
    user_folder: Path, project_files: Mapping[str, bytes], tools: Collection[str]
) -> Agents:
    """Return the built-in agents, those in the user's own folder, and those in `project_files`,
    which must be trusted already. The first agent of a name wins, except that the user's own
    replaces a built-in one. `tools` are the names of all existing tools."""
    known = {agent.name: agent for agent in (EXPLORER, CODER)}
    notices: list[str] = []
    own = list(user_texts(user_folder, SUFFIXES, MAX_AGENT_BYTES, MOST_AGENTS, notices))
    texts = [*own, *project_texts(project_files, SUFFIXES, MOST_AGENTS - len(own))]
    for number, (shown, text) in enumerate(texts):
        try:
            agent = _defined(shown, text)
            _check_tools(agent, tools)
        except UnreadableText as why:
            notices.append(f"{shown} {why}; it is left out")
            continue
        before = known.get(agent.name)
        if before is None or (number < len(own) and before.shown == EXPLORER.shown):
            known[agent.name] = agent
        else:
            notices.append(f"{shown} is left out: {agent.name} is {before.shown}")
    return Agents(known, tuple(notices))


def _defined(shown: str, text: str) -> AgentDefinition:
    """Parse an agent's file. Raises UnreadableText if it defines no agent."""
    given = _of_toml(text) if shown.endswith(".toml") else _of_markdown(text)
    values = {key: value for key, value in given.items() if value not in (None, "")}
    if unknown := sorted(given.keys() - set(_KEYS)):
        raise UnreadableText(f"sets the unknown key {unknown[0]!r}: it may set {', '.join(_KEYS)}")
    values = {"name": Path(shown).stem, **values, "shown": shown}
    try:
        agent = _adapter().validate_python(values)
    except ValidationError as error:
        fault = error.errors()[0]
        told = fault["msg"].removeprefix("Value error, ")
        raise UnreadableText(f"has a bad {fault['loc'][0]}: {told}") from error
    if not _AGENT_NAME.fullmatch(agent.name):
        raise UnreadableText("has a name that is not made of lowercase letters, digits, _ and -")
    if not agent.prompt.strip():
        raise UnreadableText("has no prompt")
    description = " ".join(agent.description.split())
    return replace(agent, prompt=agent.prompt.strip(), description=description)


@cache
def _adapter() -> TypeAdapter[AgentDefinition]:
    return TypeAdapter(AgentDefinition)


def _of_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UnreadableText(f"is not valid TOML: {error}") from error


def _of_markdown(text: str) -> dict[str, Any]:
    header = parse(text)
    return {**header.values, "prompt": header.body}


def _check_tools(agent: AgentDefinition, tools: Collection[str]) -> None:
    unknown = [name for name in agent.tools or () if name not in tools and "__" not in name]
    if unknown:
        raise UnreadableText(f"names an unknown tool: {unknown[0]!r}")
