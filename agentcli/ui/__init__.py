"""What people and programs see of a session. Nothing here is imported by the core."""
