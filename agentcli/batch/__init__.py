"""Do many tasks, each in a copy of its own: see docs/batch.md."""
