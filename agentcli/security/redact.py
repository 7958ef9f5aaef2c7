"""Secrets masked in whatever is recorded or shown.

Known values are found as they are and in the forms in which a command would carry them off: base64
at any offset, hexadecimal, percent-encoded. Others are found by the forms that their issuers give
them for that purpose. A pattern is only tried where its fixed part occurs, which keeps 1 MB of
ordinary output below 20 ms.
"""

from __future__ import annotations

import base64
import re
import string
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote, quote_plus

MASK = "[redacted]"
_SHORTEST_SECRET = 8
_SHORTEST_ENCODED = 10
_SHORT_TEXT = 2_000
"""Below this, one search for all fixed parts is faster than one for each."""
_LONGEST_OPEN = 8_000
"""Characters that a stream holds back at most while a secret may be coming."""

# Every repetition that may fail after it is bounded: no text takes time that grows faster than it.
_HAS_DIGIT = r"(?=[A-Za-z._~+/-]{0,200}\d)"
_KEY_BLOCK = r"[A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
_FORMS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("sk-",),
        r"sk-(?<![A-Za-z0-9]sk-)(?:(?:ant|proj|or|svcacct|admin)-[A-Za-z0-9_-]{20,}"
        rf"|[A-Za-z0-9]{{20,}}|{_HAS_DIGIT}[A-Za-z0-9_-]{{20,}})",
    ),
    (("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[pousr]_[A-Za-z0-9]{36,}"),
    (("github_pat_",), r"github_pat_[A-Za-z0-9_]{22,}"),
    (("glpat-",), r"glpat-[A-Za-z0-9_-]{20,}"),
    (("npm_",), r"npm_(?<![A-Za-z0-9]npm_)[A-Za-z0-9]{36,}"),
    (("pypi-AgE",), r"pypi-AgE[A-Za-z0-9_-]{40,}"),
    (("hf_",), r"hf_(?<![A-Za-z0-9]hf_)[A-Za-z0-9]{30,}"),
    (("xox",), r"xox[abeoprs]-[A-Za-z0-9-]{10,}"),
    (("xapp-",), r"xapp-\d-[A-Za-z0-9-]{20,}"),
    (("AKIA", "ASIA"), r"A(?:KI|SI)A(?<![A-Za-z0-9]A[KS]IA)[0-9A-Z]{16}(?![A-Za-z0-9])"),
    (("AIza",), r"AIza[0-9A-Za-z_-]{35}"),
    (
        ("sk_live_", "rk_live_", "sk_test_", "rk_test_"),
        r"[sr]k_(?:live|test)_(?<![A-Za-z0-9][sr]k_...._)[A-Za-z0-9]{16,}",
    ),
    (("SG.",), r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{32,}"),
    (("dop_v1_",), r"dop_v1_[0-9a-f]{64}"),
    (("eyJ",), r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    (("Bearer ", "bearer "), rf"([Bb]earer +){_HAS_DIGIT}[A-Za-z0-9._~+/-]{{20,}}=*"),
    (("Basic ", "basic "), r"([Aa]uthorization['\"]?: *['\"]?[Bb]asic +)[A-Za-z0-9+/]{8,}=*"),
    (
        ("secret_access_key", "SECRET_ACCESS_KEY", "SecretAccessKey", "secretAccessKey"),
        r"((?:[Ss]ecret_?[Aa]ccess_?[Kk]ey|SECRET_ACCESS_KEY)['\"]?\s*[=:]\s*['\"]?)[A-Za-z0-9/+]{40}"
        r"(?![A-Za-z0-9/+])",
    ),
    (
        ("://",),
        r"(?<=://)(?![^@\s/]*(?:\$[{(A-Za-z]|[{}<>*]|%[(s]))[^/\s:@?#'\"]+:[^/\s@?#'\"]+(?=@)",
    ),
    (("://",), rf"(?<=://){_HAS_DIGIT}[A-Za-z0-9_-]{{20,}}(?=@)"),
    (
        ("PRIVATE KEY",),
        rf"-----BEGIN {_KEY_BLOCK}(?:(?:[^-]|-(?!----)){{0,{_LONGEST_OPEN}}}-----END {_KEY_BLOCK}"
        r"|(?:[A-Za-z0-9+/=\s]|\\[nr]){40,})",
    ),
)
_LONGEST_WORDS = 30
"""Of those around a fixed part that belong to the form: `Authorization: Basic `."""
_ANCHORS = sorted({anchor for anchors, _ in _FORMS for anchor in anchors})
_ANY_ANCHOR = re.compile("|".join(map(re.escape, _ANCHORS)))
_PATTERNS = tuple((anchors, re.compile(pattern)) for anchors, pattern in _FORMS)

_TOKEN = string.ascii_letters + string.digits + "._~+/:%@=-"
_STARTS = (*_ANCHORS, "-----BEGIN ", "Authorization: Basic ", "authorization: basic ")
_OPEN_BLOCK = re.compile(r"-----BEGIN [A-Z ]*(?:P(?:R(?:I(?:V[\s\S]*)?)?)?)?\Z")


class Redactor:
    """Masks the given values and everything that has the form of a well-known kind of key."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._known: set[str] = set()
        self._forms: tuple[str, ...] = ()
        self.learn(*values)

    def learn(self, *values: str) -> None:
        """Mask these too from now on, in every encoding a command has at hand."""
        self._known |= {value for value in values if len(value) >= _SHORTEST_SECRET}
        forms = {form for value in self._known for form in _encodings(value)}
        self._forms = tuple(sorted(forms, key=len, reverse=True))

    def text(self, text: str) -> str:
        """`text` with its secrets masked."""
        if len(text) < _SHORTEST_SECRET:
            return text
        for form in self._forms:
            if form in text:
                text = text.replace(form, MASK)
        if len(text) < _SHORT_TEXT and not _ANY_ANCHOR.search(text):
            return text
        for anchors, pattern in _PATTERNS:
            if any(anchor in text for anchor in anchors):
                text = pattern.sub(_masked, text)
        return text

    def settled(self, text: str) -> int:
        """How much of `text`, the newest part of a stream, can be masked and passed on: from there
        on a secret may have begun that what is still to come completes."""
        end = len(text)
        tail = text[-_LONGEST_OPEN:]
        for form in self._forms:
            end = min(end, len(text) - _overlap(tail, form))
        token = len(tail.rstrip(_TOKEN))
        if found := _ANY_ANCHOR.search(tail, max(token - _LONGEST_WORDS, 0)):
            start = min(max(found.start() - _LONGEST_WORDS, 0), token)
            end = min(end, len(text) - len(tail) + start)
        for start_text in _STARTS:
            end = min(end, len(text) - _overlap(tail, start_text))
        block = tail.rfind("-----BEGIN ")
        if block >= 0 and "-----END " not in tail[block:] and _OPEN_BLOCK.match(tail, block):
            end = min(end, len(text) - len(tail) + block)
        return self._before_secret(text, max(end, 0))

    def _before_secret(self, text: str, end: int) -> int:
        """`end`, or where the secret begins that it would cut in two."""
        first = max(end - _LONGEST_OPEN, 0)
        for form in self._forms:
            at = text.find(form, max(end - len(form) + 1, 0), end + len(form) - 1)
            end = at if at >= 0 else end
        if not _ANY_ANCHOR.search(text, first):
            return end
        for _, pattern in _PATTERNS:
            for match in pattern.finditer(text, first):
                if match.start() < end < match.end():
                    end = match.start()
        return end

    def __call__(self, data: Any) -> Any:
        """`data` with its strings masked at any depth; the same object when nothing was."""
        if isinstance(data, str):
            masked = self.text(data)
            return data if masked == data else masked
        if isinstance(data, dict):
            items = {self(key): self(value) for key, value in data.items()}
            same = all(
                new_key is key and items[new_key] is data[key]
                for key, new_key in zip(data, items, strict=False)
            )
            return data if same and len(items) == len(data) else items
        if isinstance(data, list | tuple):
            values = [self(item) for item in data]
            return data if all(a is b for a, b in zip(values, data, strict=True)) else values
        return data


def _masked(match: re.Match[str]) -> str:
    """A form may begin with a group of words that are no secret."""
    return (match[1] if match.re.groups else "") + MASK


def _encodings(value: str) -> Iterator[str]:
    yield value
    data = value.encode(errors="surrogatepass")
    forms = [data.hex(), data.hex().upper()]
    forms += [quote(value, safe="", errors="replace"), quote_plus(value, errors="replace")]
    for before in range(3):
        # Of what stands around the value, some bits are in the first and in the last character.
        first = -(-before * 8 // 6)
        last = (before + len(data)) * 8 // 6
        for alphabet in (b"+/", b"-_"):
            encoded = base64.b64encode(bytes(before) + data, altchars=alphabet).decode()
            forms.append(encoded[first:last])
    yield from (form for form in forms if len(form) >= _SHORTEST_ENCODED)


def _overlap(text: str, wanted: str) -> int:
    """Length of the longest end of `text` that begins `wanted` and is not all of it."""
    for size in range(min(len(wanted) - 1, len(text)), 0, -1):
        if text.endswith(wanted[:size]):
            return size
    return 0
