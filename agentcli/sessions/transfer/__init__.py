"""Moving sessions into and out of the store."""
