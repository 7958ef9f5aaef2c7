"""Sessions: list, show, search, rename, remove, export, import."""

ORDER = ("list", "show", "search", "rename", "rm", "prune", "export", "import", "repair")
