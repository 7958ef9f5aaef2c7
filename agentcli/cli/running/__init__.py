"""One run from the command line: what is said, the session, one turn of work, the outcome."""
