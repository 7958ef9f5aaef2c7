"""What a run must achieve, and commands that check it: requirements, bisect, tries."""
