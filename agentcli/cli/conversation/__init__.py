"""A conversation at a terminal: `agent`, `agent "task"`, `agent -c`."""
