"""Fill in variables in the settings of a tool server: `${NAME}` and `${NAME:-default}`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}")


class MissingVariable(Exception):
    """A variable has neither a value nor a default; the text says which one."""


def filled(text: str, environ: Mapping[str, str], withheld: Collection[str]) -> str:
    """Return `text` with its variables replaced by their values. Those in `withheld`, the models'
    API keys, count as unset. Raises MissingVariable."""

    def value(found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        known = environ.get(name, "") if name not in withheld else ""
        if known or default is not None:
            return known or default
        why = "is a model's API key, which no server gets" if name in withheld else "is not set"
        raise MissingVariable(f"${{{name}}} {why}")

    return _VARIABLE.sub(value, text)
