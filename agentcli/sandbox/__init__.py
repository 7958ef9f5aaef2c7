"""What holds the commands of a session: layers, limits, hidden places."""
