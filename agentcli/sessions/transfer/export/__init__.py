"""Export formats of sessions: each file here with an `EXPORTER` is one, and so is each that an
outside package registers in the entry point group `agentcli.exporters`."""

from __future__ import annotations

from types import FunctionType

from agentcli.errors import UsageError
from agentcli.extensions import ExtensionPoint
from agentcli.sessions.transfer.export.base import Exporter

EXPORTERS: ExtensionPoint[FunctionType] = ExtensionPoint(
    __name__, "EXPORTER", "agentcli.exporters", FunctionType
)


def exporter(name: str) -> Exporter:
    """Return the exporter of a format. Raises UsageError when there is no such format."""
    found = EXPORTERS.get(name)
    if found is None:
        known = ", ".join(sorted(EXPORTERS.all()))
        raise UsageError(f"there is no format {name!r}", hint=f"known: {known}")
    return found
