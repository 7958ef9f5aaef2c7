"""Repositories as the agent looks at them and guards them: nothing of theirs is run."""
