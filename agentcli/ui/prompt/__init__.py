"""The input line of a conversation, which stays open while the agent works."""
