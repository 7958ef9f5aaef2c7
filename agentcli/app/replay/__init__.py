"""Recordings, and sessions done again in a copy."""
