"""Changes one setting in its file. tomlkit keeps comments, order and blank lines as they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit import TOMLDocument
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AbstractTable

from agentcli.app.configuration.config import check_setting, key_path, read_file
from agentcli.errors import ConfigError
from agentcli.workspace.private import replace_durably
from agentcli.workspace.text import toml_text


def set_in_file(path: Path, key: str, value: Any) -> None:
    """Set `key` in the TOML file at `path`, which is created if needed. Raises ConfigError if there
    is no such setting or the value is not valid; then the file is unchanged."""
    check_setting(_read(path), key, value, str(path))
    _change(path, key, lambda document: _put(document, key_path(key), value))


def add_table(path: Path, section: str, name: str, values: Mapping[str, Any]) -> None:
    """Add the table `section.name` with these valid values to the file. Raises ConfigError."""

    def put(document: TOMLDocument) -> None:
        for key, value in values.items():
            _put(document, [section, name, key], value)

    _change(path, f"{section}.{name}", put)


def remove_table(path: Path, section: str, name: str) -> bool:
    """Remove the table `section.name`; return whether there was one. Raises ConfigError."""
    found = require_changeable(path).get(section)
    if not isinstance(found, AbstractTable | dict) or name not in found:
        return False

    def drop(document: TOMLDocument) -> None:
        del document[section][name]

    _change(path, f"{section}.{name}", drop)
    return True


def _change(path: Path, key: str, change: Callable[[TOMLDocument], None]) -> None:
    # Follow links, as to a user's dotfiles, and replace what they lead to.
    real = Path(os.path.realpath(path))
    document = require_changeable(path)
    try:
        change(document)
        changed = document.as_string().encode()
    except (TOMLKitError, TypeError, ValueError) as error:
        raise ConfigError(f"{path}: {key} can't be set: {error}") from error
    try:
        real.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_durably(real, changed)
    except OSError as error:
        raise ConfigError(f"{path} can't be written: {error.strerror}") from error


def require_changeable(path: Path) -> TOMLDocument:
    """Return the content of the file at `path`. Raises ConfigError if nothing can be set in it."""
    try:
        return tomlkit.parse(_read(path))
    except TOMLKitError as error:
        raise ConfigError(
            f"{path} is not valid TOML: {error}", hint="fix the file first"
        ) from error


def _read(path: Path) -> str:
    try:
        return toml_text(read_file(path))
    except ValueError as error:
        raise ConfigError(f"{path} can't be read: {error}") from error


def _put(document: Any, path: list[str], value: Any) -> None:
    *parents, name = path
    table = document
    for depth, parent in enumerate(parents, 1):
        if parent not in table:
            table[parent] = tomlkit.table(is_super_table=depth < len(parents))
        table = table[parent]
        if not isinstance(table, AbstractTable | dict):
            raise ValueError(f"{parent} is not a table there")
    table[name] = value
