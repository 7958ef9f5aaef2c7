"""Print the path of your settings file.

Examples:
  $EDITOR "$(agent config path)"
"""

from __future__ import annotations

from agentcli.app.configuration.places import user_file
from agentcli.system.programs import user_environ
from agentcli.ui.text import say


def path() -> None:
    say(str(user_file(user_environ())))


COMMAND = path
