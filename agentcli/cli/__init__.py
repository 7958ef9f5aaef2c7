"""The command line: each command parses its arguments, wires the parts together and calls them."""
