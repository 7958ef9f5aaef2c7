"""Sessions in and out of the store."""
