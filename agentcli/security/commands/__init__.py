"""Reads shell commands and Python code for what they would do."""
