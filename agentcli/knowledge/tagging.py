"""Put text from other sources in tags, so that the model sees where it begins and ends."""

from __future__ import annotations

import re
from hashlib import sha256

_TAGS = (
    *("instructions", "skill", "skills", "notes", "past_session", "page"),
    *("tool_result", "tool_call"),
)
_TAG = re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(_TAGS)})\b)", re.IGNORECASE)


def wrap_in_tag(tag: str, text: str, **attributes: str) -> str:
    """Return `text` between tags named `tag`. Tags inside it are escaped, so that no file can close
    its own tag and pose as somebody else after it."""
    given = "".join(f' {name}="{_attribute(value)}"' for name, value in attributes.items())
    return f"<{tag}{given}>\n{escape_tags(text).strip()}\n</{tag}>"


def escape_tags(text: str) -> str:
    """Return `text` with every one of our tags escaped, so that none works as a tag."""
    return _TAG.sub("<\\\\", text)


def digest(text: str) -> str:
    """Return a short identifier of `text`: the first 16 hex digits of its SHA-256."""
    return sha256(text.encode(errors="replace")).hexdigest()[:16]


def _attribute(value: str) -> str:
    return value.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
