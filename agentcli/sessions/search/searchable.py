"""The text of an event that can be searched for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

Kind = Literal["user", "agent", "call", "result"]

_LONGEST_TEXT = 100_000
_DEEPEST = 20
_SAID = frozenset({"message", "think", "finish", "reject", "ask"})
_SAME_IN_ALL = frozenset({"system", "session_started"})
_NOT_TEXT = frozenset({"image_urls", "screenshot", "digest", "tree", "inbox_id", "old_content"})
_REPEATS_THE_CALL = frozenset({"command", "code", "path", "diff"})


def searchable(record: dict[str, Any]) -> tuple[Kind, str] | None:
    """Return who or what speaks in an event, given as JSON, and its text: what was said, commands,
    paths, file contents, outputs; at most the first 100,000 characters. None for an event without
    text, or with the text that all sessions share, such as system prompts."""
    name = kind_of(record)
    if name in _SAME_IN_ALL:
        return None
    if "action" in record:
        texts = _strings(record.get("args"), _NOT_TEXT)
        said_by: Kind = "user" if record.get("source") == "user" else "agent"
        kind: Kind = said_by if name in _SAID else "call"
    else:
        texts = _strings(
            [record.get("content"), record.get("extras")], _NOT_TEXT | _REPEATS_THE_CALL
        )
        kind = "result"
    text = "\n".join(texts)[:_LONGEST_TEXT]
    return (kind, text) if text.strip() else None


def kind_of(record: dict[str, Any]) -> str:
    return str(record.get("action", record.get("observation")))


def _strings(value: Any, left_out: frozenset[str], depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value[:_LONGEST_TEXT]
    elif isinstance(value, list) and depth < _DEEPEST:
        for item in value:
            yield from _strings(item, left_out, depth + 1)
    elif isinstance(value, dict) and depth < _DEEPEST:
        for key, item in value.items():
            if key not in left_out:
                yield from _strings(item, left_out, depth + 1)
