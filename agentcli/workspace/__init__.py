"""How the agent reads, finds and changes files, and which of them a session may touch."""
