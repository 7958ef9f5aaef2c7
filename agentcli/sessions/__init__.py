"""The record of a task: its events, the state folded from them, their files."""
