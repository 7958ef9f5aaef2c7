"""Condensers by their names: each file of this package that defines `build` is one."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Sequence
from typing import Protocol, cast

import agentcli.memory.condensers
from agentcli.errors import ConfigError
from agentcli.memory.condensers.base import Condenser, Options
from agentcli.memory.condensers.pipeline import Pipeline

_NOT_CONDENSERS = frozenset({"base", "registry", "summariser"})


class Building(Protocol):
    """What each file of this package defines."""

    def build(self, options: Options) -> Condenser: ...


def names() -> list[str]:
    """Every condenser that a file of this package defines."""
    found = pkgutil.iter_modules(agentcli.memory.condensers.__path__)
    return sorted(module.name for module in found if module.name not in _NOT_CONDENSERS)


def condenser(choice: str | Sequence[str], options: Options) -> Condenser:
    """The condenser of this name; a list of names is a pipeline. Raises ConfigError for a name that
    is not known, and for options that can't be."""
    if not isinstance(choice, str):
        if not choice:
            raise ConfigError("memory.condenser is an empty list", hint='to condense never: "noop"')
        return Pipeline([condenser(name, options) for name in choice])
    known = names()
    if choice not in known:
        near = difflib.get_close_matches(choice, known, 1, 0.5)
        raise ConfigError(
            f"memory.condenser: there is no condenser {choice!r}",
            hint=f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}",
        )
    module = importlib.import_module(f"agentcli.memory.condensers.{choice}")
    return cast(Building, module).build(options)
