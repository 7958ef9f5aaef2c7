"""Where tools run: the persistent shell, the persistent Python interpreter, their processes."""
