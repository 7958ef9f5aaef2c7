"""The `agent` command. `--version` is answered before anything is imported."""

from __future__ import annotations

import gc
import os
import resource
import sys
from typing import NoReturn

from agentcli import __version__

_OBJECTS_OF_A_START = 1_000_000


def main() -> NoReturn:
    """Run the command line and exit with its documented code."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        print(f"agent {__version__}")
        sys.exit(0)
    # Searching the objects of modules for cycles takes a twelfth of a start, and finds none.
    gc.set_threshold(_OBJECTS_OF_A_START, *gc.get_threshold()[1:])
    from agentcli.system import programs

    if "--plain" in sys.argv:
        from agentcli.ui.screen import make_plain

        make_plain()
    # From here on, no module is loaded from the folder in which the agent was started.
    programs.harden_process()
    # The memory of this process holds keys, and its core could lie in the workspace.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if sys.argv[1:2] == ["__complete"]:
        from agentcli.cli.completion.complete import main as complete

        os._exit(complete(sys.argv[2:]))
    from agentcli.cli.entry import dispatcher, reporting

    with reporting(sys.argv[1:]) as outcome, dispatcher(sys.argv[1:]) as run:
        outcome.code = run()
    # The interpreter's normal exit would take apart thousands of modules that nobody needs any
    # more.
    os._exit(outcome.code)
