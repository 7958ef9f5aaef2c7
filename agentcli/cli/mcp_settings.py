"""The files in which tool servers are set, for `agent mcp`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from agentcli.app.configuration.config import load_settings
from agentcli.app.configuration.places import PROJECT_FILE, user_file
from agentcli.cli.options import option
from agentcli.cli.user_paths import resolved_target
from agentcli.errors import ConfigError, UsageError, os_error_text
from agentcli.mcp.servers_file import FILE, server_values, with_server
from agentcli.system.programs import user_environ
from agentcli.workspace.private import read_regular, replace_durably

ProjectFlag = Annotated[bool, option("--project", f"In {FILE} of this folder.")]
_MAX_BYTES = 1_000_000


def project_file(workspace: Path) -> Path:
    return workspace / FILE


def has_server(name: str, workspace: Path, *, project: bool) -> bool:
    """Return whether a server of this name is set there. Raises ConfigError for a damaged file."""
    if project:
        text = _read(project_file(workspace))
        return bool(text.strip()) and _is_in(server_values(text, FILE, []), name)
    loaded = load_settings(user_environ(), workspace, on_fault=lambda fault: None)
    own = str(user_file(user_environ()))
    return own in (loaded.origins.get(f"mcp_servers.{name}.{way}") for way in ("command", "url"))


def origin_of(name: str, workspace: Path) -> str:
    """Return the file that sets the server; if several do, the one that counts."""
    for project in (False, True):
        if has_server(name, workspace, project=project):
            return str(project_file(workspace) if project else user_file(user_environ()))
    return str(PROJECT_FILE)


def write_project(workspace: Path, name: str, server: Mapping[str, Any] | None) -> None:
    """Set the server in .mcp.json, or remove it. Raises ConfigError."""
    path = project_file(workspace)
    try:
        real = resolved_target(path)
        replace_durably(real, with_server(_read(real), FILE, name, server))
    except OSError as error:
        raise ConfigError(f"{path} can't be written: {os_error_text(error)}") from error


def named_in(texts: Sequence[str]) -> dict[str, str]:
    """Parse texts of the form NAME=VALUE. Raises UsageError."""
    pairs = [text.partition("=") for text in texts]
    for name, equals, _ in pairs:
        if not equals or not name:
            raise UsageError(f"{name!r} is not NAME=VALUE", hint="agent mcp add --help")
    return {name: value for name, _, value in pairs}


def _is_in(values: Mapping[str, Any], name: str) -> bool:
    return any(key.startswith(f"mcp_servers.{name}.") for key in values)


def _read(path: Path) -> bytes:
    try:
        return read_regular(path, _MAX_BYTES, follow=True)[0]
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {os_error_text(error)}") from error
