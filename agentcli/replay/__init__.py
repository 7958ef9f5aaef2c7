"""Recordings of sessions, and what it takes to compare two runs of one."""
