"""Wire formats, one file each; `PROTOCOL` is the class that implements it."""
