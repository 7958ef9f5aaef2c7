"""The prompt of a conversation: an input line that stays open while the agent works."""
