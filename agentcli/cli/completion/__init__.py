"""Completion in shells: a script for each calls `agent __complete` with the line so far."""
