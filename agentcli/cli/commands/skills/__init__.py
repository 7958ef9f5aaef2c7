"""Skills: list, show, add, remove. docs/knowledge.md tells what they are."""

ORDER = ("list", "show", "add", "remove")
