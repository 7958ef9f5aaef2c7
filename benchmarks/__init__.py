"""Measures the agent as whole processes against a scripted model on loopback."""
