"""Completion in shells: the script for each shell calls `agent __complete` with the line so far."""
