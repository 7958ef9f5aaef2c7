"""Access to the operating system: programs, homes, processes."""
