"""Decides what may run: rules, grants, hard blocks."""
