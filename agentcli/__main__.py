"""`python -m agentcli` is `agent`."""

from agentcli.cli.main import main

main()
