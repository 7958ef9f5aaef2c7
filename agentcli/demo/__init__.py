"""What `agent demo` works on: a small repository with a bug, and a recorded session."""
