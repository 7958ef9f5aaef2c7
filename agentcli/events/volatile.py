"""Patterns for text in the output of programs that differs from run to run by itself."""

from __future__ import annotations

TEMPORARY = (
    r"\btmp[._-]?[A-Za-z0-9_]{6,}\b|\bpytest-\d+\b"
    r"|\b(?:bash|python)-[0-9a-f]{4,}-(?:job-)?\d+\.(?:txt|log)\b"
)
"""Names of temporary files and folders."""
DATES = r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)?\b"
CLOCKS = (
    r"\b\d\d?:\d\d:\d\d(?:[.,]\d+)?(?: [AP]M)?\b"
    r"|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? +(?:\w{3} +\d{1,2}|\d{1,2} \w{3})\b"
    r"|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +\d{1,2} +\d\d:\d\d\b"
)
"""Times of day, and dates in words."""
SECONDS = r"\b1[6-9]\d{8}(?:\d{3})?(?:\.\d+)?\b"
"""Unix timestamps, in seconds or milliseconds."""
DURATIONS = (
    r"\b\d+(?:\.\d+)?(?:e-\d+)? ?(?:ns|us|µs|ms|s|secs?|seconds?|mins?|minutes?|hours?)\b"
    r"|\b\d+m\d+(?:\.\d+)?s\b"
)
ADDRESSES = r"\b0x[0-9a-fA-F]{6,}\b"
"""Memory addresses."""
PIDS = (
    r"(?<=pid )\d+|(?<=pid=)\d+|(?<=pid: )\d+|(?<=PID )\d+|(?<=PID: )\d+|(?<=process )\d+"
    r"|(?m:^\[\d+\] \d+$)"
)
IDS = r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"
"""Random ids, such as those of uuidgen."""
