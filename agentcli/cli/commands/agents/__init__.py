"""The agents that work can be delegated to."""

ORDER = ("list",)
