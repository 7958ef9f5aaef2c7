"""`python -m agentcli` is `agent`."""

import os
import sys

if not sys.flags.safe_path and os.path.realpath(sys.path[0]) == os.path.realpath(os.curdir):
    # Python has put the working directory in front of everything: a `json.py` of a repository
    # would be ours.
    del sys.path[0]

from agentcli.cli.main import main

main()
