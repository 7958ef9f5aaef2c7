"""Rules: test them on past sessions, or have some suggested."""

ORDER = ("test", "suggest")
