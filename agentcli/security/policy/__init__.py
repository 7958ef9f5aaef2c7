"""What may run: rules, grants, hard blocks."""
