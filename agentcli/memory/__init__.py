"""What the model sees of a session."""
