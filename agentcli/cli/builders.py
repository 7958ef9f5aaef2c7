"""What commands without a session need: the settings, models and keys in force."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.builders import load_builder
from agentcli.app.configuration.config import parse_assignments
from agentcli.cli.error_reporting import print_error
from agentcli.cli.flags import Flags
from agentcli.cli.user_paths import here
from agentcli.errors import ConfigError
from agentcli.security.redact import Redactor, masked_values
from agentcli.sessions.state import State


def builder_for(
    workspace: Path,
    on_fault: Callable[[ConfigError], None] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> AgentBuilder:
    """Return a builder with the settings in force in `workspace` and those of `flags`, by dotted
    key. Nobody is asked whether the folder is trusted. Raises ConfigError for wrong settings,
    unless there is `on_fault`, which then receives the error."""
    return load_builder(workspace, flags, on_fault=on_fault)[0]


def given_settings(flags: Flags) -> dict[str, Any]:
    """Return the settings given on the command line, by --set and by flags of their own, by dotted
    key. Raises UsageError."""
    return {**parse_assignments(flags.assignments), **flags.settings()}


def builder_for_session(state: State, **options: Any) -> AgentBuilder:
    """Return `builder_for` the folder in which a session works; if it is gone, for this one."""
    return builder_for(state.local_workspace or here(), **options)


def report_config_error(fault: ConfigError) -> None:
    """Report a wrong setting that does not matter to what the user is doing now."""
    print_error(f"ignored: {fault.message}", fault.hint)


def redactor() -> Redactor:
    """Return a redactor for the keys of models and for every other secret in a variable of this
    environment. Mistakes in the settings are left to the commands that use those settings."""
    return redactor_for(builder_for(here(), lambda fault: None))


def redactor_for(builder: AgentBuilder) -> Redactor:
    """Return a redactor for the keys of models and for every other secret in a variable."""
    return Redactor({*masked_values(builder.environ), *builder.registry().keys()})
