"""Agents to delegate work to: two built-in ones, and those that users define in files.

A file is either Markdown with a header, whose body is the prompt, or TOML with a key `prompt`. The
agent has the name of its file unless the file sets another.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from agentcli.knowledge.definition_files import project_texts, user_texts
from agentcli.knowledge.front_matter import parse
from agentcli.workspace.bounded_files import UnreadableText

MAX_AGENT_BYTES = 64 * 1024
MOST_AGENTS = 50
SUFFIXES = (".md", ".toml")
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
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
    if not _NAME.fullmatch(agent.name):
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
