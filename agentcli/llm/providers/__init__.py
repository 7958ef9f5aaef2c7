"""Wire formats, one file each."""
