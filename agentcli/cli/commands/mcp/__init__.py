"""Tool servers (MCP): which there are, new ones, and whether they work."""

ORDER = ("list", "add", "remove", "test", "serve")
