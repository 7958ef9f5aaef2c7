"""Keeps sessions in a database: SQLite or PostgreSQL, through SQLAlchemy."""
