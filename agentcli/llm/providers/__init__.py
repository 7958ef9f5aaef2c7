"""Providers, one file each, which gives the provider its name; `PROVIDER` describes it."""
