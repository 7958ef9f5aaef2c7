"""Hooks: the user's own programs, run at certain moments of a session."""
