"""Skills: list, show, add, remove. docs/knowledge.md explains them."""

ORDER = ("list", "show", "add", "remove")
