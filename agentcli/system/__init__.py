"""What the operating system tells and gives: programs, homes, processes."""
