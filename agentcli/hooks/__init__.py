"""What the person's programs say to what the agent does."""
