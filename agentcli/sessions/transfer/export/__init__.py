"""Sessions in forms that others read: each file here with a FORMAT is one."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from agentcli.errors import UsageError
from agentcli.sessions.transfer.export.base import ExportFormat, Redactor, Trajectory, trajectory_of

__all__ = ["ExportFormat", "Redactor", "Trajectory", "format_named", "formats", "trajectory_of"]


def formats() -> Iterator[ExportFormat]:
    """Every format that a file of this package defines, by file name."""
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda m: m.name):
        found = getattr(importlib.import_module(f"{__name__}.{module.name}"), "FORMAT", None)
        if isinstance(found, ExportFormat):
            yield found


def format_named(name: str) -> ExportFormat:
    """Raises UsageError when there is no such format."""
    known = {known.name: known for known in formats()}
    if name not in known:
        raise UsageError(f"there is no format {name!r}", hint=f"known: {', '.join(sorted(known))}")
    return known[name]
