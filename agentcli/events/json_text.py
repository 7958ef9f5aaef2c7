"""JSON that anything can read, whatever text it holds."""

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
