"""The tool servers that a trusted project brings along, within what it may decide about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentcli.errors import ConfigError
from agentcli.mcp.servers_file import FILE, server_values

__all__ = ["FILE", "of_file", "permitted"]

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
