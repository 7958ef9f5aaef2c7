"""List the tool servers that sessions in this folder have.

None of them is started.

Examples:
  agent mcp list
  agent mcp list --json
"""

from __future__ import annotations

import json
import sys
from typing import Any

from agentcli.app.server_plans import command_text
from agentcli.cli.builders import builder_for, report_config_error
from agentcli.cli.mcp_settings import origin_of
from agentcli.cli.options import Json
from agentcli.cli.user_paths import here
from agentcli.settings import ServerSettings, named_servers
from agentcli.ui.text import printable


def list_(as_json: Json = False) -> None:
    builder = builder_for(here(), report_config_error)
    rows = [
        _row(name, server) for name, server in named_servers(builder.settings.mcp_servers).items()
    ]
    for row in rows:
        row["origin"] = origin_of(row["name"], here())
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        told = f"{row['name']:<16} {_kept_in(row):<22} {row['command'] or row['url']}"
        print(f"{printable(told, multiline=False)}  # {printable(row['origin'], multiline=False)}")
    if not rows:
        print("there are no tool servers here: agent mcp add --help", file=sys.stderr)


def _row(name: str, server: ServerSettings) -> dict[str, Any]:
    return {
        "name": name,
        "command": "" if server.url else command_text(server),
        "url": server.url,
        "enabled": server.enabled,
        "sandbox": server.sandbox,
        "network": server.network,
    }


def _kept_in(row: dict[str, Any]) -> str:
    if not row["enabled"]:
        return "off"
    if row["url"]:
        return "site"
    if not row["sandbox"]:
        return "no sandbox"
    return "sandbox with network" if row["network"] else "sandbox"


COMMAND = list_
