"""Keys of model providers that the user gave to `agent setup`: in a file of their own beside the
settings that nobody else may read. Keys in the environment take precedence."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentcli.app.configuration.places import keys_file
from agentcli.errors import ConfigError
from agentcli.workspace.private import locked, read_regular, replace_durably
from agentcli.workspace.text import load_toml, toml_text

_MAX_BYTES = 100_000
_FOR_OTHERS = 0o077
_HEAD = "# Keys of model providers, kept by `agent setup`. Nobody else may read this file.\n"


@dataclass(frozen=True)
class StoredKeys:
    """`values` are keys by their environment variable; `fault` says why none could be read."""

    values: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""


def stored_keys(environ: Mapping[str, str]) -> StoredKeys:
    path = keys_file(environ)
    try:
        text, facts = read_regular(path, _MAX_BYTES, follow=True)
    except (FileNotFoundError, NotADirectoryError):
        return StoredKeys()
    except OSError as error:
        return StoredKeys(fault=f"{path} can't be read: {error.strerror}")
    if facts.st_uid not in (os.geteuid(), 0):
        return StoredKeys(fault=f"{path} is not used: it belongs to another user")
    if stat.S_IMODE(facts.st_mode) & _FOR_OTHERS:
        return StoredKeys(fault=f"{path} is not used: others may read it; chmod 600 {path}")
    try:
        found = load_toml(toml_text(text))
    except (ValueError, RecursionError):
        # The parser's message could contain part of a key.
        return StoredKeys(fault=f"{path} is not used: it is not valid TOML")
    return StoredKeys({name: key for name, key in found.items() if isinstance(key, str)})


def require_keepable(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the stored keys. Raises ConfigError if no further key can be stored with them."""
    kept = stored_keys(environ)
    if kept.fault:
        raise ConfigError(kept.fault, hint="or delete it: agent setup asks for keys again")
    return kept.values


def store_key(environ: Mapping[str, str], variable: str, key: str) -> Path:
    """Store `key`, for use when `variable` is not set. Raises ConfigError."""
    path = Path(os.path.realpath(keys_file(environ)))
    try:
        with locked(path):
            keys = {**require_keepable(environ), variable: key}
            # A JSON string is also a TOML string.
            lines = (f"{name} = {json.dumps(value)}\n" for name, value in keys.items())
            replace_durably(path, (_HEAD + "".join(lines)).encode())
    except OSError as error:
        raise ConfigError(f"{path} can't be written: {error.strerror}") from error
    return path
