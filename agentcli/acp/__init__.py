"""Editors drive the agent: the Agent Client Protocol, spoken through its official SDK."""
