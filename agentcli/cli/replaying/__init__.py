"""`agent replay`, and the recordings of `agent run --record`."""
