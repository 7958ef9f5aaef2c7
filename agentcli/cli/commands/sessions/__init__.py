"""Sessions: list, show, search, rename, remove, export, import, copy."""

ORDER = ("list", "show", "search", "rename", "rm", "prune", "export", "import", "copy", "repair")
