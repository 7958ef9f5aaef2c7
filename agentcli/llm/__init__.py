"""How to reach models."""
