"""JSON that anything can read, and patterns for text that differs from run to run by itself."""

from __future__ import annotations

import json
from typing import Any

_DECODER = json.JSONDecoder(strict=False)


def compact_json(value: Any, *, allow_nan: bool = True) -> bytes:
    """Return compact JSON in UTF-8, with lone surrogates replaced. Without `allow_nan`, raises
    ValueError for numbers that JSON does not have (NaN, infinities)."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=allow_nan, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return well_formed(text).encode()


def json_value(text: str | bytes, otherwise: Any = None) -> Any:
    """Parse `text`; return `otherwise` if it is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return otherwise


def json_object(text: str | bytes) -> dict[str, Any] | None:
    """Parse `text`; None if it is no JSON object."""
    value = json_value(text)
    return value if isinstance(value, dict) else None


def value_at(text: str, position: int) -> tuple[Any, int] | None:
    """Return the JSON value that begins at `position`, whose texts may hold line breaks, and its
    end; None if there is none."""
    try:
        return _DECODER.raw_decode(text, position)
    except (ValueError, RecursionError):
        return None


def well_formed(text: str) -> str:
    """Return `text` with lone surrogates, which UTF-8 can't encode, replaced by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


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
