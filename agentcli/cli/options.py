"""How commands declare options and arguments, and those that several commands have."""

from __future__ import annotations

from typing import Any

import typer


def option(spelling: str, about: str = "", **limits: Any) -> Any:
    """Declare an option as the help shows it: its names, then what its value is called, as in
    "--model, -m NAME". A flag has no value."""
    words = spelling.replace(",", "").split()
    names = [word for word in words if word.startswith("-")]
    value = next((word for word in words if not word.startswith("-")), None)
    return typer.Option(*names, metavar=value, help=about or None, **limits)


def argument(name: str, about: str = "", **limits: Any) -> Any:
    """Declare an argument, which the help calls `name`."""
    return typer.Argument(metavar=name, help=about or None, **limits)
