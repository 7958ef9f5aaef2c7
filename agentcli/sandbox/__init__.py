"""Contains the commands of a session: layers, resource limits, hidden places."""
