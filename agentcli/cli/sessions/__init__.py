"""Stored sessions: selected, chosen from a list, shown, removed."""
