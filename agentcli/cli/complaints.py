"""Errors told to a person: what happened, then what to do."""

from __future__ import annotations

import sys

from agentcli.ui.sanitize import printable


def complain(message: str, hint: str = "") -> None:
    lines = [f"agent: {printable(message)}"] + ([f"  {printable(hint)}"] if hint else [])
    print("\n".join(lines), file=sys.stderr)
