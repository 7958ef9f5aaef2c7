"""What programs drive the agent by, and the command line itself: see docs/python.md."""
