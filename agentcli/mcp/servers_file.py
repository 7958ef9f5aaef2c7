"""Read and write .mcp.json, a project's tool servers in the format that other assistants use too,
and fill in its variables: `${NAME}` and `${NAME:-default}`. What a project may not decide about its
servers is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from agentcli.errors import ConfigError
from agentcli.settings import is_server_name

FILE = ".mcp.json"
_TAKEN = ("command", "args", "env", "cwd", "url", "headers")
_FIX = "fix the file first"
_NAMES_HINT = "letters, digits, and single - or _ between them, 32 at most"


def server_values(text: bytes, origin: str, notices: list[str]) -> dict[str, Any]:
    """Return what the file sets, by dotted key of the settings; add a line to `notices` for each
    server that is left out. Raises ConfigError if the file has another format."""
    values: dict[str, Any] = {}
    for name, server in _read(text, origin)["mcpServers"].items():
        if fault := _fault(name, server):
            notices.append(f"{origin}: the tool server {name} is left out: {fault}")
            continue
        settings = {key: server[key] for key in _TAKEN if server.get(key)}
        if server.get("disabled") is True:
            settings["enabled"] = False
        values |= {f"mcp_servers.{name}.{key}": value for key, value in settings.items()}
    return values


def with_server(text: bytes, origin: str, name: str, server: Mapping[str, Any] | None) -> bytes:
    """Return the file with `server` added under `name`, or that name removed if it is None. Raises
    ConfigError."""
    data = _read(text, origin) if text.strip() else {"mcpServers": {}}
    data["mcpServers"].pop(name, None)
    if server is not None:
        data["mcpServers"][name] = dict(server)
    return f"{json.dumps(data, ensure_ascii=False, indent=2)}\n".encode()


def _read(text: bytes, origin: str) -> dict[str, Any]:
    """Return the file's JSON, which has an object `mcpServers`. Raises ConfigError."""
    try:
        data: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{origin} is not valid JSON: {error}", hint=_FIX) from error
    if not isinstance(data, dict) or not isinstance(data.get("mcpServers"), dict):
        raise ConfigError(f"{origin} has no object mcpServers", hint=_FIX)
    return data


def check_name(name: str) -> None:
    """Raises ConfigError if `name` can't be the name of a server."""
    if not is_server_name(name):
        raise ConfigError(f"{name!r} can't name a tool server", hint=f"use {_NAMES_HINT}")


def _fault(name: str, server: object) -> str:
    if not is_server_name(name):
        return f"its name must consist of {_NAMES_HINT}"
    if not isinstance(server, dict):
        return "it is not an object"
    kind = server.get("type", "stdio")
    if kind == "sse":
        return "the old SSE transport is not supported; the server may offer streamable HTTP too"
    if kind not in ("stdio", "http", "streamable-http", "streamableHttp"):
        return f"unknown transport {kind!r}"
    if bool(server.get("command")) == bool(server.get("url")):
        return "it needs a command or a url"
    if (url := server.get("url")) and not str(url).startswith(("http://", "https://")):
        return "its url must begin with http:// or https://"
    # Types are checked here, so that one bad server doesn't stop a run.
    forms: dict[str, tuple[type, str]] = {
        "args": (list, "a list of strings"),
        "env": (dict, "an object of strings"),
        "headers": (dict, "an object of strings"),
    }
    for key, value in ((key, server[key]) for key in _TAKEN if key in server):
        form, described = forms.get(key, (str, "a string"))
        items = value.values() if isinstance(value, dict) else value
        if not isinstance(value, form) or not all(isinstance(item, str) for item in items):
            return f"{key} must be {described}"
    return ""


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


_SECTION = "mcp_servers."
_NOT_FOR_PROJECTS = ("sandbox", "network")


def of_file(content: bytes, origin: str, notices: list[str]) -> dict[str, Any]:
    """Return what .mcp.json sets, by dotted key; faults in it are left out, with a notice."""
    try:
        return server_values(content, origin, notices)
    except ConfigError as error:
        notices.append(f"{error.message}; left out")
        return {}


def permitted(
    values: Mapping[str, Any], lower: Mapping[str, Any], origin: str, notices: list[str]
) -> dict[str, Any]:
    """Return the `values` of a project without what it may not set: how its servers are contained,
    and servers that the user has under the same name (`lower`), with the rights they gave those."""
    kept: dict[str, Any] = {}
    told = []
    for key, value in values.items():
        name, _, setting = key.removeprefix(_SECTION).rpartition(".")
        if not key.startswith(_SECTION):
            kept[key] = value
        elif any(f"{_SECTION}{name}.{way}" in lower for way in ("command", "url")):
            told.append(f"{origin}: mcp_servers.{name} is yours already; that one is left out")
        elif setting in _NOT_FOR_PROJECTS:
            told.append(f"{origin}: a project can't set {key}; set it in your own settings")
        else:
            kept[key] = value
    notices += dict.fromkeys(told)
    return kept
