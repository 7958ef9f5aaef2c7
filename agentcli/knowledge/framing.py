"""Put text from other sources in tags, so that the model sees where it begins and ends."""

from __future__ import annotations

import re
from hashlib import sha256

_FRAMES = (
    *("instructions", "skill", "skills", "notes", "past_session", "page"),
    *("tool_result", "tool_call"),
)
_TAG = re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(_FRAMES)})\b)", re.IGNORECASE)


def framed(frame: str, text: str, **attributes: str) -> str:
    """Return `text` between tags named `frame`. Tags of any frame inside it are defused, so that no
    file can close its own frame and pose as somebody else after it."""
    told = "".join(f' {name}="{_attribute(value)}"' for name, value in attributes.items())
    return f"<{frame}{told}>\n{defused(text).strip()}\n</{frame}>"


def defused(text: str) -> str:
    """Return `text` with every frame tag escaped, so that none works as a tag."""
    return _TAG.sub("<\\\\", text)


def digest(text: str) -> str:
    """Return a short identifier of `text`: the first 16 hex digits of its SHA-256."""
    return sha256(text.encode(errors="replace")).hexdigest()[:16]


def _attribute(value: str) -> str:
    return value.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
