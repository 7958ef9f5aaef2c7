"""Recordings, and sessions repeated in a copy."""
