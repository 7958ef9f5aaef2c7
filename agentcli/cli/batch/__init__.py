"""`agent batch`: running it, and showing its progress."""
