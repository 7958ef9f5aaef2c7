"""Access to the operating system: programs, home folders, processes."""
