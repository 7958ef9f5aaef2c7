"""Shell commands and Python code read for what they would do."""
