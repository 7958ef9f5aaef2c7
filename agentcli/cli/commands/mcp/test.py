"""Start tool servers as a session would, and show what they offer.

Exits 1 when one of them does not work.

Examples:
  agent mcp test
  agent mcp test --json
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from agentcli.app.server_plans import server_plans
from agentcli.cli.builders import builder_for
from agentcli.cli.options import Json, argument
from agentcli.cli.terminal import working
from agentcli.cli.user_paths import here
from agentcli.errors import UsageError
from agentcli.mcp.servers import ToolServers
from agentcli.mcp.values import ServerFeatures, one_line
from agentcli.settings import named_servers
from agentcli.ui.text import printable

_MOST_CHARS = 100


def try_servers(
    name: Annotated[str | None, argument("NAME", "All if left out.")] = None,
    as_json: Json = False,
) -> int:
    builder = builder_for(here())
    known = named_servers(builder.settings.mcp_servers)
    if name is not None and name not in known:
        raise UsageError(f"there is no tool server {name!r}", hint="agent mcp list")
    if not known:
        raise UsageError("there are no tool servers here", hint="agent mcp add --help")
    with TemporaryDirectory(prefix="agent-mcp-") as folder:
        (Path(folder) / "tmp").mkdir(mode=0o700)
        containment = builder.containment(Path(folder), attended=True)
        plans = [plan for plan in server_plans(containment) if name in (None, plan.name)]
        servers = ToolServers(plans, here(), lambda line: None)
        try:
            with working("starting them"):
                servers.start()
                servers.wait()
            rows = [(plan.name, state, features) for plan, state, features in servers.states()]
        finally:
            servers.close()
    if as_json:
        offers = [
            {"name": name, "state": state, "offer": features and asdict(features)}
            for name, state, features in rows
        ]
        print(json.dumps(offers, indent=2))
    else:
        for row in rows:
            _print(*row)
    return 0 if all(features is not None for _, _, features in rows) else 1


def _print(name: str, state: str, features: ServerFeatures | None) -> None:
    if features is None:
        print(f"{name}: {printable(state, multiline=False)}", file=sys.stderr)
        return
    print(printable(f"{name}: {state} ({features.title})", multiline=False))
    for tool in features.tools:
        _row("tool", tool.name, tool.description)
    for tool_name, why in features.unfit:
        _row("left out", tool_name, why)
    for prompt in features.prompts:
        _row("prompt", f"/mcp__{name}__{prompt.name}", prompt.description)
    for resource in features.resources:
        _row("resource", f"@{name}:{resource.uri}", resource.description or resource.name)


def _row(kind: str, name: str, told: str) -> None:
    text = f"  {kind:<9} {name:<28} {one_line(told)[:_MOST_CHARS]}"
    print(printable(text, multiline=False).rstrip())


COMMAND = try_servers
