"""Partial names of models: `sonnet`, `gpt-5.5`, `qwen3-coder`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from agentcli.errors import ConfigError

_MOST_SHOWN = 5


def resolve(wanted: str, names: Sequence[str], defaults: Iterable[str]) -> str | None:
    """Return the full name among `names` that `wanted` means, or None. A complete model name wins
    over words within one, then one of the `defaults` over others: the provider's choice among
    similar models. Raises ConfigError when several fit, naming them."""
    whole = wanted.lower()
    if found := [name for name in names if _model(name) == whole]:
        return _only(wanted, found)
    if found := [name for name in names if _model(name).rpartition("/")[2] == whole]:
        return _only(wanted, found)
    words = re.compile(rf"(?<![a-z0-9]){re.escape(whole)}(?![a-z])")
    if chosen := next((name for name in defaults if words.search(_model(name))), None):
        return chosen
    # `name:batch` and the like are variants of the model `name`.
    found = [name for name in names if words.search(_model(name)) and not _is_variant(name, names)]
    return _only(wanted, found) if found else None


def nearest(wanted: str, names: Iterable[str]) -> list[str]:
    """Return models' names, and words from them, that resemble `wanted`, the closest first."""
    models = [_model(name) for name in names]
    known = dict.fromkeys(
        word for model in models for word in (model, *re.findall(r"[a-z]{3,}", model))
    )
    return difflib.get_close_matches(wanted.lower(), known, 3, 0.7)


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
        f"{wanted!r} matches {len(found)} models",
        hint="\n  ".join(("did you mean one of these?", *shown, *more)),
    )
