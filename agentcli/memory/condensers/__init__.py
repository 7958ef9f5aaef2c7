"""Condensers: one file each, with the condenser's name; its `CONDENSER` says how to make it."""
