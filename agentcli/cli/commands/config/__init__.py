"""Settings: show, set, path."""

ORDER = ("show", "set", "path")
