"""What commands need of the settings, models and keys in force, without a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.builders import builder_in
from agentcli.cli.complaints import print_error
from agentcli.cli.session_common import here
from agentcli.errors import ConfigError
from agentcli.security.redact import Redactor
from agentcli.security.secret_variables import masked_values
from agentcli.system.programs import person_environ


def builder_for(
    workspace: Path,
    on_fault: Callable[[ConfigError], None] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> AgentBuilder:
    """Under the settings in force there and those of `flags`, by dotted key; nobody is asked
    whether the folder is trusted. Raises ConfigError for wrong settings, unless `on_fault` is told
    of them."""
    return builder_in(workspace, flags, on_fault=on_fault)[0]


def tell_fault(fault: ConfigError) -> None:
    """Of a wrong setting, to a person who does not work with it now."""
    print_error(f"left out: {fault.message}", fault.hint)


def redactor() -> Redactor:
    """Masks the keys of models, and whatever else a variable of this environment keeps secret. What
    is wrong in the settings is left to those who work with them."""
    registry = builder_for(here(), lambda fault: None).registry()
    return Redactor({*masked_values(person_environ()), *registry.keys()})
