"""`agent run --tries`: several tries at a task, each in its own process."""
