"""Remove a tool server from your settings or from this project's.

With --project, it is removed from .mcp.json of this folder.

Examples:
  agent mcp remove clock
"""

from __future__ import annotations

from typing import Annotated

from agentcli.app.configuration.places import user_file
from agentcli.app.configuration.settings_file import remove_table
from agentcli.app.configuration.trust import require_outside_session
from agentcli.cli.mcp_settings import ProjectFlag, has_server, project_file, write_project
from agentcli.cli.options import argument
from agentcli.cli.user_paths import here
from agentcli.errors import UsageError
from agentcli.system.programs import user_environ
from agentcli.ui.text import say


def remove(
    name: Annotated[str, argument("NAME")],
    project: ProjectFlag = False,
) -> None:
    require_outside_session(user_environ(), "no session may change settings")
    place = project_file(here()) if project else user_file(user_environ())
    if not has_server(name, here(), project=project):
        raise UsageError(f"{place} has no server {name!r}", hint="agent mcp list")
    if project:
        write_project(here(), name, None)
    else:
        remove_table(place, "mcp_servers", name)
    say(f"{name} is removed from {place}")


COMMAND = remove
