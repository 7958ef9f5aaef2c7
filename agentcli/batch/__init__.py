"""Many tasks, each in a place of its own: see docs/batch.md."""
