"""The tool servers that a trusted project brings along, as far as it may decide on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentcli.errors import ConfigError
from agentcli.mcp.servers_file import FILE, server_values

__all__ = ["FILE", "of_file", "permitted"]

_SECTION = "mcp_servers."
_NOT_FOR_PROJECTS = ("sandbox", "network")


def of_file(content: bytes, origin: str, notices: list[str]) -> dict[str, Any]:
    """What .mcp.json sets, by dotted key; what is wrong in it is left out, with a notice."""
    try:
        return server_values(content, origin, notices)
    except ConfigError as error:
        notices.append(f"{error.message}; left out")
        return {}


def permitted(
    values: Mapping[str, Any], lower: Mapping[str, Any], origin: str, notices: list[str]
) -> dict[str, Any]:
    """`values` of a project without what is not for it to set: how its servers are contained, and
    those that the person has under the same name (`lower`), with all the rights they gave them."""
    kept: dict[str, Any] = {}
    told = []
    for key, value in values.items():
        name, _, setting = key.removeprefix(_SECTION).rpartition(".")
        if not key.startswith(_SECTION):
            kept[key] = value
        elif any(f"{_SECTION}{name}.{way}" in lower for way in ("command", "url")):
            told.append(f"{origin}: mcp_servers.{name} is yours already; that one is left out")
        elif setting in _NOT_FOR_PROJECTS:
            told.append(f"{origin}: {key} is not for a project to set; set it in your own settings")
        else:
            kept[key] = value
    notices += dict.fromkeys(told)
    return kept
