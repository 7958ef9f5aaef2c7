"""Puts the parts together: a session and an agent from settings."""
