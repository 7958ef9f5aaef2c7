"""What the log of a session proves of its work: what changed, what was tested, and how it went."""
