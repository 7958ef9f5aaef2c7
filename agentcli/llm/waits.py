"""How long a server asks to wait, in all the places and forms in which servers say so."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_PIECE = (
    r"(\d{1,12}(?:\.\d{1,12})?)\s*"
    r"(milliseconds?|ms|minutes?|mins?|m|seconds?|secs?|s|hours?|hrs?|h|days?|d)(?![a-z])"
)
_PIECES = re.compile(_PIECE, re.IGNORECASE)
_DURATION = rf"(?:{_PIECE}[\s,]*(?:and\s+)?)+"
_DURATION_ALONE = re.compile(_DURATION, re.IGNORECASE)
_IN_WORDS = re.compile(
    r"(?:try(?:ing)? again|retry(?:ing)?|wait|available|resets?)\s+(?:again\s+)?"
    rf"(?:(?:in|after|for|at least|about)\s+)*(?:{_DURATION}|(?P<bare>\d{{1,6}}(?:\.\d+)?)\b)",
    re.IGNORECASE,
)
_AT_TIME = re.compile(
    r"(?:try again|retry|available|resets?)\s+(?:again\s+)?(?:at|after|on)\s+"
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d))",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+(\.\d+)?")
_OLDEST_TIMESTAMP = 1e9
_OLDEST_TIMESTAMP_MS = 1e11
_LONGEST_WAIT_S = 1e7
_RESET_HEADER = re.compile(r"(?:x-|anthropic-)?ratelimit-(?:.+-)?reset(?:-.+)?", re.IGNORECASE)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds the server asks to wait: `retry-after-ms`, or `retry-after` as a number
    with or without unit, or as a date. LiteLLM's proxy passes the latter on under its own name."""
    milliseconds = headers.get("retry-after-ms", "")
    if _NUMBER.fullmatch(milliseconds):
        return min(float(milliseconds) / 1000, _LONGEST_WAIT_S)
    return wait_of(headers.get("retry-after") or headers.get("llm_provider-retry-after", ""))


def wait_of(value: str) -> float | None:
    """Return the seconds that `value` means: a number of them, a duration (`1m2.5s`), or a time to
    come, as a timestamp in s or ms, an HTTP date or ISO 8601."""
    value = value.strip()
    if _NUMBER.fullmatch(value):
        number = float(value)
        if number >= _OLDEST_TIMESTAMP_MS:
            number /= 1000
        now = datetime.now(UTC).timestamp() if number >= _OLDEST_TIMESTAMP else 0.0
        return min(max(0.0, number - now), _LONGEST_WAIT_S)
    if _DURATION_ALONE.fullmatch(value):
        return _seconds(value)
    return _until(value)


def wait_in_words(message: str) -> float | None:
    """Return the wait in seconds that a message names, as in `try again in 1m2.5s`."""
    if found := _IN_WORDS.search(message):
        return float(found["bare"]) if found["bare"] else _seconds(found[0])
    at_time = _AT_TIME.search(message)
    return _until(at_time[1]) if at_time else None


def reset_in(headers: Mapping[str, str]) -> float | None:
    """Return the seconds until every limit that is used up starts anew, from the headers
    `x-ratelimit-reset…` (OpenAI, Groq, Cerebras, OpenRouter) and `anthropic-ratelimit-…-reset`.
    A limit is used up if its header with `remaining` in place of `reset` says 0 or is missing; a
    time too far away to be true does not count."""
    waits = [
        wait_of(value)
        for name, value in headers.items()
        if _RESET_HEADER.fullmatch(name)
        and headers.get(name.lower().replace("reset", "remaining"), "0") == "0"
    ]
    return max((wait for wait in waits if wait and wait < _LONGEST_WAIT_S), default=None)


def wait_text(seconds: float) -> str:
    """Return a wait for people, in its largest unit of which there are at least two."""
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} seconds"


def _seconds(duration: str) -> float:
    total = 0.0
    for number, unit in _PIECES.findall(duration):
        short = unit.lower()
        key = "ms" if short.startswith(("ms", "milli")) else short[0]
        total += float(number) * _UNITS[key]
    return min(total, _LONGEST_WAIT_S)


def _until(date: str) -> float | None:
    try:
        when = datetime.fromisoformat(date) if date[:4].isdigit() else parsedate_to_datetime(date)
        seconds = (when - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(0.0, seconds), _LONGEST_WAIT_S)
