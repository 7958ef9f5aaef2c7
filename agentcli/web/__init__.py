"""Web pages: decide which addresses may be reached, fetch pages and turn them into text."""
