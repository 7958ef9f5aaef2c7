"""What may run, and what may never be written down."""
