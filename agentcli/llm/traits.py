"""What a model at an endpoint takes and wants, as far as endpoints of one wire format differ.

A provider's file says what is known beforehand; what a refusal teaches is learned from it
(`llm/healing.py`) and kept per endpoint and model (`llm/findings.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Effort levels, the least first; the words of both SDKs."""

Efforts = Mapping[str, Mapping[str, Any]]
"""By level, the body members that tell a model how much to reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """How an endpoint's requests differ from the plain form of its wire format."""

    always: Mapping[str, Any] = field(default_factory=dict)
    """Body members of every request."""
    efforts: Efforts | None = None
    """None: as the wire format usually tells it; empty: it can't be told."""
    unwanted: Sequence[str] = ()
    """Body members that are never sent."""
    output_limit: str = ""
    """The member that caps a reply; empty: as the wire format names it."""
    most_output_tokens: int = 0
    """The largest cap that is accepted; 0: not known."""
    system_role: Literal["system", "developer", "user"] = "system"
    forced_tools: bool = True
    """Whether a reply can be made to call a tool."""
    tools: Literal["native", "text"] = "native"
    """`text`: tools are described in the system text, and calls are text."""
    images: Literal["anywhere", "messages", "none"] = "anywhere"
    """`messages`: only in what the user says, not in results of tools."""
    schema: str = ""
    """Which JSON Schema tools may use: a row of `llm/tool_schemas.py`; empty: what
    nearly all take."""
    unwanted_keywords: Sequence[str] = ()
    """Keywords left out of tools' schemas."""
    cache_marks: bool = True
    """Whether what is to be cached may be marked."""
    short_ids: bool = False
    """Whether ids of calls have exactly nine letters and digits."""
    plain_ids: bool = False
    """Whether ids of calls have only letters, digits, `_` and `-`."""
    cache_key: bool = False
    """Whether the session's id may be sent, to find what is cached."""
    user_after_tool: bool = True
    """Whether a message of the user may follow the result of a tool."""
    not_returned: Sequence[str] = ()
    """Members of a model's own messages, and types of its content blocks or items, that it does not
    take back."""
    filled: Mapping[str, Any] = field(default_factory=dict)
    """Members that each message of the model must have; with these values where it lacks them."""
    stand_in: Mapping[str, Any] = field(default_factory=dict)
    """Members of the first call of a reply that another model wrote."""
    is_bound: bool = False
    """Whether a model's thinking is valid only after exactly what came before it."""

    def effort(self, wanted: str | None, usual: Efforts) -> Mapping[str, Any]:
        """Return the body members for `wanted`, or for the nearest level there is; `usual` is the
        wire format's own table."""
        table = usual if self.efforts is None else self.efforts
        return table[nearest_level(wanted, table)] if wanted and table else {}

    def with_changes(self, changes: Mapping[str, Any]) -> Traits:
        """Return these traits with `changes`, which may come from a file: what is unknown or of the
        wrong type is left out."""
        known = {each.name: getattr(self, each.name) for each in fields(self)}
        fitting = {n: v for n, v in changes.items() if n in known and _fits(v, known[n])}
        return replace(self, **fitting)


def _fits(value: object, current: object) -> bool:
    for kind in (bool, int, str, Mapping):
        if isinstance(current, kind):
            return isinstance(value, kind) and isinstance(value, bool) == isinstance(current, bool)
    return isinstance(value, Mapping if current is None else list | tuple)


Rows = Mapping[str, Mapping[str, Any]]
"""Changes of traits by a regular expression on the model's name."""


def of_model(model: str, traits: Traits, rows: Rows) -> Traits:
    """Return `traits` with the changes of each row that fits the model's name, in order."""
    for pattern, changes in rows.items():
        if re.search(pattern, model, re.IGNORECASE):
            traits = replace(traits, **changes)
    return traits


def nearest_level(wanted: str, levels: Mapping[str, Any] | Sequence[str]) -> str:
    """Return the level of `levels` (of which there are some) that is nearest to `wanted`: between
    two the lower, and never `none` for a level that asks for reasoning, if there is another."""
    if wanted in levels:
        return wanted
    reasoning = [level for level in LEVELS[1:] if level in levels] or list(levels)
    place = LEVELS.index(wanted) if wanted in LEVELS else LEVELS.index("medium")
    return min(reasoning, key=lambda level: abs(LEVELS.index(level) - place))


def levels(words: str, member: str = "reasoning_effort", **none: Any) -> Efforts:
    """Return a table in which each level of `words` is the value of `member` (`a.b`: of `b` within
    `a`), or what follows it after `=`; `none` are the members that turn reasoning off."""
    outer, _, inner = member.partition(".")
    table: dict[str, Mapping[str, Any]] = {"none": none} if none else {}
    for word in words.split():
        level, _, other = word.partition("=")
        value = other or level
        table[level] = {outer: {inner: value} if inner else value}
    return table
