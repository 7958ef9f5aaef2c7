"""Finds secrets whose values are known, however a command may have written them.

Most ways of writing a value keep its letters and digits in order and only change what is between
them: quotes, blanks, line breaks, `+` and `-`. So a text is searched without all that. What remains
of a value is long, so one of its first 8 characters always falls on a multiple of 8. Comparing all
blocks of 8, read as numbers, therefore shows in one pass whether any value may be there, however
many values are known.

This does not find values that were compressed, encrypted, or revealed in several pieces.
"""

from __future__ import annotations

import base64
import string
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import compress
from urllib.parse import quote, quote_plus

_SHORTEST = 8
"""Shortest secret, in characters; anything shorter may be an ordinary word."""
_SHORTEST_ENCODED = 10
_BLOCK = 8
_SHORTEST_SPREAD = 2 * _BLOCK - 1
_TOLD = 3
"""How many characters of a secret a stream may have passed on before the secret is recognized."""
_LINE = 76
"""Length of a line of base64."""

_ALPHANUMERIC = frozenset(string.ascii_letters + string.digits)
_BETWEEN = bytes(code for code in range(256) if chr(code) not in _ALPHANUMERIC)

Span = tuple[int, int]


class KnownValues:
    """Finds the values that it has learnt, plain and encoded."""

    def __init__(self) -> None:
        self._values: set[str] = set()
        self._exact: tuple[str, ...] = ()
        self._spread: set[bytes] = set()
        self._blocks: dict[int, list[tuple[bytes, int]]] = {}
        self._sorted: list[bytes] = []
        self._starts: frozenset[bytes] = frozenset()
        self._longest = 0

    def learn(self, values: Iterable[str]) -> None:
        new = {value for value in values if len(value) >= _SHORTEST} - self._values
        self._values |= new
        exact = set(self._exact)
        for value in new:
            data = value.encode(errors="surrogatepass")
            near = {form for form in _near_forms(value, data) if len(form) >= _SHORTEST_ENCODED}
            exact.add(value)
            if not _is_random(value):
                exact |= near
                continue
            letters = {form: _squeezed(form) for form in {value, *near, *_far_forms(value, data)}}
            spread = {form for form in letters if len(letters[form]) >= _SHORTEST_SPREAD}
            exact |= near - spread
            for form in spread:
                self._add(letters[form])
        self._exact = tuple(sorted(exact, key=len, reverse=True))
        self._sorted = sorted(form[told:] for form in self._spread for told in range(_TOLD + 1))
        self._starts = frozenset(form[: _TOLD + 1] for form in self._sorted)
        self._longest = max(map(len, self._spread), default=0)

    def spans(self, text: str) -> list[Span]:
        """Return where the values occur in `text`, in order and merged where they overlap."""
        found = [span for form in self._exact for span in _occurrences(text, form)]
        if self._spread and len(text) >= _SHORTEST_SPREAD:
            found += self._spread_spans(text)
        return _merged(found)

    def open_from(self, text: str) -> int:
        """Return where a value may begin that is cut off by the end of `text`; its length if there
        is none. For a value spread over several words, only its part in the last word counts."""
        word = max(map(text.rfind, " \n\t")) + 1
        start = min((len(text) - overlap(text, form) for form in self._exact), default=len(text))
        places = [at for at in range(word, len(text)) if text[at] in _ALPHANUMERIC]
        letters = _squeezed(text[word:])
        for at in range(max(len(letters) - self._longest, 0), len(letters) - _TOLD):
            if letters[at : at + _TOLD + 1] in self._starts and self._begins(letters[at:]):
                return min(start, places[at])
        return start

    def _begins(self, letters: bytes) -> bool:
        at = bisect_left(self._sorted, letters)
        return at < len(self._sorted) and self._sorted[at].startswith(letters)

    def _add(self, letters: bytes) -> None:
        if letters in self._spread:
            return
        self._spread.add(letters)
        for told in {0, min(_TOLD, len(letters) - _SHORTEST_SPREAD)}:
            rest = letters[told:]
            for at in range(_BLOCK):
                [block] = _numbers(rest[at : at + _BLOCK])
                self._blocks.setdefault(block, []).append((rest, at))

    def _spread_spans(self, text: str) -> Iterator[Span]:
        squeezed = _squeezed(text)
        blocks = _numbers(squeezed)
        if self._blocks.keys().isdisjoint(blocks):
            return
        places = list(compress(range(len(text)), map(_ALPHANUMERIC.__contains__, text)))
        for number, block in enumerate(blocks):
            for letters, offset in self._blocks.get(block, ()):
                start = number * _BLOCK - offset
                end = start + len(letters)
                if start >= 0 and squeezed[start:end] == letters:
                    yield places[start], places[end - 1] + 1


def _squeezed(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass").translate(None, delete=_BETWEEN)


def _numbers(data: bytes) -> Iterable[int]:
    """Return the whole blocks of `data`, one after the other, as numbers."""
    whole = len(data) - len(data) % _BLOCK
    return memoryview(data)[:whole].cast("Q")


def _is_random(value: str) -> bool:
    """Return whether the value can't occur by chance when separators are ignored."""
    letters = _squeezed(value)
    return len(letters) >= _SHORTEST_SPREAD and not letters.isalpha() and not letters.isdigit()


def _near_forms(value: str, data: bytes) -> Iterator[str]:
    """Yield the encodings for which every system has a command."""
    yield from (data.hex(), data.hex().upper())
    yield from (quote(value, safe="", errors="replace"), quote_plus(value, errors="replace"))
    yield from _base64(data)


def _far_forms(value: str, data: bytes) -> Iterator[str]:
    """Yield the encodings that someone only chooses on purpose."""
    yield value[::-1]
    yield "".join(f"\\x{byte:02x}" for byte in data)
    for before in range(5):
        # 5 bytes give 8 characters; the first and last one also hold bits of the neighbours.
        first, last = -(-before * 8 // 5), (before + len(data)) * 8 // 5
        form = base64.b32encode(bytes(before) + data).decode()[first:last]
        yield from (form, form.lower())
    for skipped in range(4):
        # 4 bytes give 5 characters, and each of them depends on all 4.
        whole = data[skipped : skipped + (len(data) - skipped) // 4 * 4]
        yield from (base64.a85encode(whole).decode(), base64.b85encode(whole).decode())
    for form in _base64(data):
        for at in range(0, len(form), _LINE):
            yield from _base64(form[at : at + _LINE].encode())


def _base64(data: bytes) -> Iterator[str]:
    """Yield the base64 forms of `data` at any offset within other data."""
    for before in range(3):
        # The first and last character also hold bits of what is around the value.
        first, last = -(-before * 8 // 6), (before + len(data)) * 8 // 6
        for alphabet in (b"+/", b"-_"):
            yield base64.b64encode(bytes(before) + data, altchars=alphabet).decode()[first:last]


def _occurrences(text: str, form: str) -> Iterator[Span]:
    at = text.find(form)
    while at >= 0:
        yield at, at + len(form)
        at = text.find(form, at + len(form))


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def overlap(text: str, wanted: str) -> int:
    """Return the length of the longest end of `text` that is a proper prefix of `wanted`."""
    for size in range(min(len(wanted) - 1, len(text)), 0, -1):
        if text.endswith(wanted[:size]):
            return size
    return 0
