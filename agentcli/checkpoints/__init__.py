"""Taking snapshots of a workspace and restoring them."""
