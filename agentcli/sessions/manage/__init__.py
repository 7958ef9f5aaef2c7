"""Keeping sessions: names, owners, copies, repair, removal."""
