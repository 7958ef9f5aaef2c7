"""What a session's log proves about its work: what changed, what was tested, and the outcome."""
