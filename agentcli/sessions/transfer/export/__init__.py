"""Sessions in forms that others read: each file here with an `EXPORTER` is one, and so is what
outside packages enter in the group `agentcli.exporters`."""

from __future__ import annotations

from types import FunctionType

from agentcli.errors import UsageError
from agentcli.extensions import ExtensionPoint
from agentcli.sessions.transfer.export.base import Exporter

EXPORTERS: ExtensionPoint[FunctionType] = ExtensionPoint(
    __name__, "EXPORTER", "agentcli.exporters", FunctionType
)


def exporter(name: str) -> Exporter:
    """Raises UsageError when there is no such format."""
    found = EXPORTERS.get(name)
    if found is None:
        known = ", ".join(sorted(EXPORTERS.all()))
        raise UsageError(f"there is no format {name!r}", hint=f"known: {known}")
    return found
