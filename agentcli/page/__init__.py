"""Renders a session as one HTML page that needs no network and no other file."""
