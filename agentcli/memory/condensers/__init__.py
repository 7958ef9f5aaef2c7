"""Ways to make the window shorter, one file each; the file's name is the condenser's name."""
