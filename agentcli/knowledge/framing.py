"""Text that others wrote, marked so that where it begins and ends can't be mistaken."""

from __future__ import annotations

import re
from hashlib import sha256

_FRAMES = (
    *("instructions", "skill", "skills", "notes", "past_session", "page"),
    *("tool_result", "tool_call"),
)
_TAG = re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(_FRAMES)})\b)", re.IGNORECASE)


def framed(frame: str, text: str, **attributes: str) -> str:
    """`text` between tags named `frame`; tags of any frame within it are defused, so that no file
    can end its own frame and go on as somebody else."""
    told = "".join(f' {name}="{_attribute(value)}"' for name, value in attributes.items())
    return f"<{frame}{told}>\n{defused(text).strip()}\n</{frame}>"


def defused(text: str) -> str:
    """`text` in which no tag of a frame is one any more."""
    return _TAG.sub("<\\\\", text)


def digest(text: str) -> str:
    """What tells one text from another: the first 16 digits of its SHA-256."""
    return sha256(text.encode(errors="replace")).hexdigest()[:16]


def _attribute(value: str) -> str:
    return value.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
