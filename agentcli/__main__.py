"""`python -m agentcli` is `agent`."""

import os
import sys

if not sys.flags.safe_path and os.path.realpath(sys.path[0]) == os.path.realpath(os.curdir):
    # Python has put the working directory first on the path: a repository's `json.py` would replace
    # ours.
    del sys.path[0]

from agentcli.cli.main import main

main()
