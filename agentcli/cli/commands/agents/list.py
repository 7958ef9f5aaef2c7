"""List the agents that sessions in this folder can delegate to.

Examples:
  agent agents list
  agent agents list --json
"""

from __future__ import annotations

import json
import sys

from agentcli.cli.builders import builder_for, report_config_error
from agentcli.cli.options import Json
from agentcli.cli.user_paths import here
from agentcli.ui.text import printable, say, say_note


def list_(as_json: Json = False) -> None:
    known = builder_for(here(), report_config_error).agents()
    rows = [
        {
            "name": agent.name,
            "description": agent.description,
            "tools": None if agent.tools is None else list(agent.tools),
            "reads_only": known.reads_only(agent),
            "model": agent.model,
            "max_turns": agent.max_turns or None,
            "max_budget_usd": agent.max_budget_usd,
            "file": agent.shown,
        }
        for agent in known.known.values()
    ]
    if as_json:
        print(json.dumps(rows, indent=2))
    for agent in known.known.values() if not as_json else ():
        told = " · ".join(known.facts(agent))
        print(printable(f"{agent.name:<16} {told:<40} # {agent.shown}", multiline=False))
    for notice in known.notices:
        say_note(notice)
    if not known.may_delegate:
        say("agent: delegation is off here: see tools.enable_delegate", sys.stderr)


COMMAND = list_
