"""Models by less than their full names: `sonnet`, `gpt-5.5`, `qwen3-coder`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from agentcli.errors import ConfigError

_MOST_SHOWN = 5


def resolve(wanted: str, names: Sequence[str], defaults: Iterable[str]) -> str | None:
    """The full name among `names` that `wanted` means; None when none fits. A whole name goes
    before words of one, then one of the `defaults` before others: they are the providers' choice
    among models of a kind. Raises ConfigError when several fit, naming them."""
    whole = wanted.lower()
    if found := [name for name in names if _model(name) == whole]:
        return _only(wanted, found)
    if found := [name for name in names if _model(name).rpartition("/")[2] == whole]:
        return _only(wanted, found)
    words = re.compile(rf"(?<![a-z0-9]){re.escape(whole)}(?![a-z])")
    if chosen := next((name for name in defaults if words.search(_model(name))), None):
        return chosen
    # `name:batch` and the like are ways to have the model `name`.
    found = [name for name in names if words.search(_model(name)) and not _is_variant(name, names)]
    return _only(wanted, found) if found else None


def nearest(wanted: str, names: Iterable[str]) -> list[str]:
    """Names of models, and words of such, that look like `wanted`, the most alike first."""
    known = dict.fromkeys(word for name in names for word in _words(_model(name)))
    return difflib.get_close_matches(wanted.lower(), known, 3, 0.7)


def _words(model: str) -> list[str]:
    return [model, *re.findall(r"[a-z]{3,}", model)]


def _model(name: str) -> str:
    return name.partition("/")[2].lower()


def _is_variant(name: str, names: Sequence[str]) -> bool:
    return ":" in name and name.partition(":")[0] in names


def _only(wanted: str, found: list[str]) -> str:
    if len(found) == 1:
        return found[0]
    # Catalogues list old models first.
    shown = found[: -_MOST_SHOWN - 1 : -1]
    more = [f"or one of {len(found) - len(shown)} more"] if len(found) > len(shown) else []
    raise ConfigError(
        f"{wanted!r} fits {len(found)} models",
        hint="\n  ".join(("did you mean one of these?", *shown, *more)),
    )
