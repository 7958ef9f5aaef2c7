"""Lets editors drive the agent by the Agent Client Protocol, through its official SDK."""
