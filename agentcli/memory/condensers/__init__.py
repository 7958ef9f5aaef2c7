"""Condensers, one file each, named as the file is; `CONDENSER` says how it is made."""
