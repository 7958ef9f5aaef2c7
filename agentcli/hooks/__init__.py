"""The person's programs that are run at certain moments of a session."""
