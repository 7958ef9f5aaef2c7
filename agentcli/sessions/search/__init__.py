"""Finding sessions and what was said in them."""
