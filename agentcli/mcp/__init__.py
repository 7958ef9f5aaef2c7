"""Tool servers: programs and sites that offer tools by the Model Context Protocol (docs/mcp.md)."""
