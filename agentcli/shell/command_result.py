"""The result of a command in the shell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class CommandResult:
    output: str
    """Clean text for the model; a long one is cut in the middle, at line boundaries."""
    exit_code: int | None
    """None: still running, in the background or waiting for input; or `exit_unknown`."""
    cwd: str
    """The folder after the command."""
    duration_s: float
    pid: int | None
    timed_out: bool = False
    waiting_for_input: bool = False
    truncated: bool = False
    full_output_path: str | None = None
    """Set when truncated or in the background: a file of the raw bytes, 50 MB at most."""
    job_id: str | None = None
    exit_unknown: bool = False
    """A job has ended without leaving an exit code."""
    notes: tuple[str, ...] = ()
    exports: Mapping[str, str | None] = field(default_factory=dict)
    """Exported variables that changed since the last result (None: unset), as far as they may be
    stored: see `variables.storable`."""
    exports_layer: str = ""
    """The sandbox layer in which they were set."""
