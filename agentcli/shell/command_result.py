"""The result of a command in the shell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class CommandResult:
    output: str
    """Text for the model: clean, cut in the middle on line boundaries if it was long."""
    exit_code: int | None
    """None: still running, in the background or waiting for input, or else `exit_unknown`."""
    cwd: str
    """After the command."""
    duration_s: float
    pid: int | None
    timed_out: bool = False
    waiting_for_input: bool = False
    truncated: bool = False
    full_output_path: str | None = None
    """Set when truncated or in the background: the bytes as produced, 50 MB at most."""
    job_id: str | None = None
    exit_unknown: bool = False
    """Of a job: it has ended and left no exit code."""
    notes: tuple[str, ...] = ()
    exports: Mapping[str, str | None] = field(default_factory=dict)
    """The exported variables that are not as the last result left them (None: unset), as far as
    they may be stored: see `variables.storable`."""
    exports_layer: str = ""
    """The sandbox's, in which they were set."""
