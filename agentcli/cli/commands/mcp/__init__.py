"""Tool servers (MCP): list, add, remove, test, serve."""

ORDER = ("list", "add", "remove", "test", "serve")
