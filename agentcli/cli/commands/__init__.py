"""A coding assistant for the terminal."""

ORDER = (
    *("chat", "run", "resume", "tell", "compact", "context", "undo", "rewind", "fork", "diff"),
    *("batch", "open", "demo", "setup", "init", "models", "notes", "doctor", "trust", "schema"),
    *("sessions", "skills", "mcp", "config", "policy"),
)
