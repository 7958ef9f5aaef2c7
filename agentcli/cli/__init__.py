"""The command line: each command parses, wires and calls."""
