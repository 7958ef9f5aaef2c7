"""Files as the agent reads, finds and changes them, and what of them a session may touch."""
