"""The API by which programs, and the command line, drive the agent: see docs/python.md."""
