"""Decides what may run, and what must never be written down."""
