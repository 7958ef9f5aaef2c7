"""Settings: show, set, path."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from agentcli.app.configuration.config import STORE, beyond_tightening, parse_assignment
from agentcli.app.configuration.places import PROJECT_FILE, resolve_workspace, user_file
from agentcli.app.configuration.settings_file import set_in_file
from agentcli.app.configuration.store import without_password
from agentcli.app.configuration.trust import load_with_trust, require_outside_session
from agentcli.app.policy import settings_rules
from agentcli.cli.builders import builder_for, report_config_error
from agentcli.cli.error_reporting import print_error
from agentcli.cli.options import Json, argument, option
from agentcli.cli.user_paths import here, resolved_target
from agentcli.errors import ConfigError, UsageError
from agentcli.settings import Settings, flatten
from agentcli.system.programs import user_environ
from agentcli.ui.text import say


def show_settings(
    origin: Annotated[bool, option("--origin", "Say where each value comes from.")] = False,
    as_json: Json = False,
) -> int:
    """Show every setting with the value in force.

    Examples:
      agent config show
      agent config show --origin
    """
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


_RULES = ("security.allow", "security.ask", "security.deny")


def set_setting(
    key: Annotated[str, argument("KEY", "Such as model.name; all: agent config show.")],
    value: Annotated[str, argument("VALUE", 'Such as 50, true, text or \'["a", "b"]\'.')],
    project: Annotated[bool, option("--project", f"In {PROJECT_FILE} of this folder.")] = False,
) -> int:
    """Set a value in your settings, or in those of this folder.

    Comments in the file are kept. VALUE is TOML; anything that is not valid TOML is taken as text:
    agent config set agent.max_turns 50

    Examples:
      agent config set model.name anthropic/claude-sonnet-5-5
      agent config set agent.max_turns 50 --project
    """
    environ = user_environ()
    require_outside_session(environ, "no session may change settings")
    name, parsed = parse_assignment(f"{key}={value}")
    if project and name == STORE:
        raise UsageError(f"a project can't set {STORE}", hint="leave out --project")
    parsed = _check(name, parsed)
    path = resolved_target(here() / PROJECT_FILE) if project else user_file(environ)
    set_in_file(path, name, parsed)
    shown = without_password(parsed) if name == STORE and isinstance(parsed, str) else parsed
    say(f"{name} = {json.dumps(shown, ensure_ascii=False)}  # {path}")
    _tell_what_differs(name, parsed, path, project)
    return 0


def _check(key: str, value: Any) -> Any:
    """Return the value to set, with a model spelled out in full. Raises ConfigError for a mistake
    that the type of the setting does not reveal."""
    if key == "model.name" and value and isinstance(value, str):
        return builder_for(here(), lambda fault: None).registry().full_name(value)
    if key in _RULES and isinstance(value, list) and all(isinstance(rule, str) for rule in value):
        security = {key.partition(".")[2]: value}
        settings_rules(Settings.model_validate({"security": security}))
    return value


def _tell_what_differs(key: str, value: Any, path: Path, project: bool) -> None:
    """Say what keeps the value from taking effect here."""
    faults: list[ConfigError] = []
    loaded = load_with_trust(user_environ(), here(), on_fault=faults.append).settings
    origin = loaded.origins.get(key, "")
    if project and str(path) not in origin and any(beyond_tightening({key: value})):
        print_error("it takes effect once this folder is trusted", "agent trust")
    elif origin and str(path) not in origin:
        print_error(f"{origin} also sets {key} and takes precedence")
    for fault in faults:
        print_error(fault.message, fault.hint)


def print_path() -> None:
    """Print the path of your settings file.

    Examples:
      $EDITOR "$(agent config path)"
    """
    say(str(user_file(user_environ())))


COMMAND = {
    "show": show_settings,
    "set": set_setting,
    "path": print_path,
}
