"""The persistent bash and Python of a session."""
