"""Tool servers: programs and sites with tools for the Model Context Protocol (docs/mcp.md)."""
