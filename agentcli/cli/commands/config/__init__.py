"""Settings: show, path."""

ORDER = ("show", "path")
