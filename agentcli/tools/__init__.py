"""What the agent can do; one file each."""
