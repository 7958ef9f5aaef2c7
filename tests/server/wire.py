"""Small things every protocol needs: JSON, ids, pieces of text, server-sent events, seals."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import uuid
from collections.abc import Iterable

# One key for all servers: what one server has sealed, a later one still recognises, as it is with
# a provider when a conversation is resumed on another day.
_KEY = b"the loopback model server's own key"


def dumps(value: object) -> bytes:
    """Compact JSON as UTF-8; a lone surrogate, which UTF-8 can't carry, goes as an escape."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def new_id(prefix: str, length: int = 24) -> str:
    """A fresh id of `length` characters after its prefix."""
    return prefix + (uuid.uuid4().hex + uuid.uuid4().hex)[:length]


def pieces(text: str, size: int) -> list[str]:
    """`text` cut as a model streams it, `size` characters at a time; no piece for no text."""
    return [text[start : start + size] for start in range(0, len(text), max(size, 1))]


def event(data: object, name: str = "") -> bytes:
    """One server-sent event, named as the Responses and Messages protocols name theirs."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + dumps(data) + b"\n\n"


def _mac(payload: bytes) -> bytes:
    return hmac.new(_KEY, payload, hashlib.sha256).digest()


def digest(*texts: str) -> str:
    """A short stand-in for texts, the same for the same."""
    joined = "\0".join(texts).encode("utf-8", "surrogatepass")
    return hashlib.sha256(joined).hexdigest()[:24]


def signature(text: str, prefix: str = "") -> str:
    """What signs a piece of reasoning: it fits that text and no other, and says which conversation
    led to it, by the digest of that."""
    return seal([digest(text), prefix])


def signs(sealed: str, text: str) -> bool:
    """Whether a signature is one of ours, for this text."""
    return (unseal(sealed) or [""])[0] == digest(text)


def seal(values: Iterable[str]) -> str:
    """An opaque string that carries `values` and shows any alteration."""
    payload = json.dumps(list(values)).encode()
    return base64.b64encode(_mac(payload) + payload).decode()


def unseal(sealed: str) -> list[str] | None:
    """The values that `seal` put in, or None when the string isn't one of ours, unaltered."""
    try:
        data = base64.b64decode(sealed, validate=True)
    except ValueError:
        return None
    if not hmac.compare_digest(data[:32], _mac(data[32:])):
        return None
    return [str(value) for value in json.loads(data[32:])]
