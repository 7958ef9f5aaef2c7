"""Providers, one file each, named as the file is; `PROVIDER` says what is known of it."""
