"""`agent models`: what can be reached from here."""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated

import typer


def models(
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> int:
    """Models that can be reached. Asks each provider with a key and each local server."""
    from agentcli.cli.reach import reachable
    from agentcli.config import load_settings
    from agentcli.wiring import Wiring, resolve_workspace

    workspace = resolve_workspace(None)
    wiring = Wiring(load_settings(os.environ, workspace).values, os.environ, workspace)
    found = list(reachable(wiring.registry()))
    if as_json:
        print(json.dumps([reach.as_dict() for reach in found], indent=2))
    for reach in [] if as_json else found:
        for model in reach.models:
            print(f"{reach.provider}/{model}")
        if reach.error:
            print(f"agent: {reach.provider}: {reach.error}", file=sys.stderr)
    if not any(reach.models for reach in found):
        print(
            "agent: no model can be reached: set a key, or start a local server (agent doctor)",
            file=sys.stderr,
        )
        return 3
    return 0
