"""Show every setting with the value in force.

Examples:
  agent config show
  agent config show --origin
"""

from __future__ import annotations

import json
from typing import Annotated

from agentcli.app.configuration.config import STORE
from agentcli.app.configuration.places import resolve_workspace
from agentcli.app.configuration.store import without_password
from agentcli.app.configuration.trust import load_with_trust
from agentcli.cli.builders import report_config_error
from agentcli.cli.options import Json, option
from agentcli.errors import ConfigError
from agentcli.settings import flatten
from agentcli.system.programs import user_environ
from agentcli.ui.text import say


def show(
    origin: Annotated[bool, option("--origin", "Say where each value comes from.")] = False,
    as_json: Json = False,
) -> int:
    faults: list[ConfigError] = []
    loaded = load_with_trust(
        user_environ(), resolve_workspace(None), on_fault=faults.append
    ).settings
    values = {key: value for key, value in flatten(loaded.values) if value is not None}
    values[STORE] = without_password(values[STORE])
    if as_json:
        rows = {
            key: {"value": value, "origin": loaded.origins.get(key, "default")}
            for key, value in values.items()
        }
        print(json.dumps(rows, indent=2))
    else:
        for key, value in values.items():
            line = f"{key} = {json.dumps(value, ensure_ascii=False)}"
            say(f"{line:<45}  # {loaded.origins.get(key, 'default')}" if origin else line)
    for fault in faults:
        report_config_error(fault)
    return 3 if faults else 0


COMMAND = show
