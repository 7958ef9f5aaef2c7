"""Assembles a session and an agent from settings."""
