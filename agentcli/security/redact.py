"""Masks secrets in everything that is recorded or shown.

Known values are found in every spelling (`known_values`), other secrets by the formats that issuers
give their keys to make them recognizable. A pattern is only tried where its fixed part occurs,
which keeps 1 MB of ordinary output below 20 ms.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable
from typing import Any

from agentcli.security.known_values import KnownValues, overlap

MASK = "[redacted]"
_SHORTEST_SECRET = 8
_SHORT_TEXT = 2_000
"""In shorter texts, one search for all fixed parts is faster than one search for each."""
_LONGEST_OPEN = 8_000
"""Most characters that a stream holds back while a secret may be coming."""

# Every repetition that may fail later is bounded, so that time grows at most linearly with a text.
_HAS_DIGIT = r"(?=[A-Za-z._~+/-]{0,200}+\d)"
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
    (
        (".eyJ",),
        # The lookahead runs once for each run of letters, however many eyJ it contains.
        r"(?<![A-Za-z0-9_-])(?=[A-Za-z0-9_-]++\.eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8})"
        r"([A-Za-z0-9_-]*?)eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]++\.[A-Za-z0-9_-]+",
    ),
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
"""Most characters around a fixed part that belong to the form: `Authorization: Basic `."""
_ANCHORS = sorted({anchor.lstrip(".") for anchors, _ in _FORMS for anchor in anchors})
_ANY_ANCHOR = re.compile("|".join(map(re.escape, _ANCHORS)))
_PATTERNS = tuple((anchors, re.compile(pattern)) for anchors, pattern in _FORMS)

_TOKEN = string.ascii_letters + string.digits + "._~+/:%@=-"
_STARTS = (*_ANCHORS, "-----BEGIN ", "Authorization: Basic ", "authorization: basic ")
_OPEN_BLOCK = re.compile(r"-----BEGIN [A-Z ]*(?:P(?:R(?:I(?:V[\s\S]*)?)?)?)?\Z")


class Redactor:
    """Masks the given values and everything that has the format of a well-known kind of key."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._known = KnownValues()
        self.learn(*values)

    def learn(self, *values: str) -> None:
        """Mask these values too from now on."""
        self._known.learn(values)

    def text(self, text: str) -> str:
        """Return `text` with its secrets masked."""
        if len(text) < _SHORTEST_SECRET:
            return text
        if spans := self._known.spans(text):
            ends, starts = [0, *(end for _, end in spans)], [*(start for start, _ in spans), None]
            kept = zip(ends, starts, strict=True)
            text = MASK.join(text[start:end] for start, end in kept)
        if len(text) < _SHORT_TEXT and not _ANY_ANCHOR.search(text):
            return text
        for anchors, pattern in _PATTERNS:
            if any(anchor in text for anchor in anchors):
                text = pattern.sub(_masked, text)
        return text

    def note(self, before: str, after: str) -> str:
        """Return a sentence for the model, which might write `after` back to a file: how many
        secrets of `before` are masked in `after`; "" if none."""
        count = after.count(MASK) - before.count(MASK)
        if count <= 0:
            return ""
        secrets = f"{count} secrets" if count > 1 else "1 secret"
        return f"[{secrets} shown here as {MASK}: what this was read from is unchanged]"

    def safe_prefix_length(self, text: str) -> int:
        """Return how many characters of `text`, the latest part of a stream, can be masked and
        passed on. A secret may begin after them that the next part completes."""
        tail = text[-_LONGEST_OPEN:]
        before = len(text) - len(tail)
        end = self._known.open_from(tail)
        token = len(tail.rstrip(_TOKEN))
        if found := _ANY_ANCHOR.search(tail, max(token - _LONGEST_WORDS, 0)):
            end = min(end, max(found.start() - _LONGEST_WORDS, 0), token)
        for start_text in _STARTS:
            end = min(end, len(tail) - overlap(tail, start_text))
        block = tail.rfind("-----BEGIN ")
        if block >= 0 and "-----END " not in tail[block:] and _OPEN_BLOCK.match(tail, block):
            end = min(end, block)
        return self._before_secret(text, before + end)

    def _before_secret(self, text: str, end: int) -> int:
        """Return `end`, or the start of a secret that `end` would cut in two."""
        first = max(end - _LONGEST_OPEN, 0)
        for start, stop in self._known.spans(text[first : end + _LONGEST_OPEN]):
            if first + start < end < first + stop:
                end = first + start
        if not _ANY_ANCHOR.search(text, first):
            return end
        for _, pattern in _PATTERNS:
            for match in pattern.finditer(text, first):
                if match.start() < end < match.end():
                    end = match.start()
        return end

    def __call__(self, data: Any) -> Any:
        """Mask strings at any depth of `data`; return the same object if there is nothing to
        mask."""
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
    """Mask a match, except for the words that some forms capture first, which are no secret."""
    return (match[1] if match.re.groups else "") + MASK
