"""Masks secrets in everything that is recorded or shown.

Which variables hold a secret is defined here for everything: what commands get to see, what is
recorded of their exports, and what is masked. Known values are found in every spelling (see
`SecretMatcher`), other secrets by the formats that issuers give their keys to make them
recognizable. A pattern is only tried where its fixed part occurs, which keeps 1 MB of ordinary
output below 20 ms."""

from __future__ import annotations

import base64
import os
import re
import string
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import compress
from typing import Any
from urllib.parse import quote, quote_plus

_SHORTEST = 8
"""Shortest secret, in characters; anything shorter may be an ordinary word."""
_SHORTEST_ENCODED = 10
_BLOCK = 8
_SHORTEST_SPREAD = 2 * _BLOCK - 1
_PASSED_ON = 3
"""How many characters of a secret a stream may have passed on before the secret is recognized."""
_LINE = 76
"""Length of a line of base64."""

_ALPHANUMERIC = frozenset(string.ascii_letters + string.digits)
_BETWEEN = bytes(code for code in range(256) if chr(code) not in _ALPHANUMERIC)

Span = tuple[int, int]


class SecretMatcher:
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
            squeezed = _squeezed(value)
            is_word = squeezed.isalpha() or squeezed.isdigit()
            if len(squeezed) < _SHORTEST_SPREAD or is_word:
                # It may occur by chance when separators are ignored.
                exact |= near
                continue
            letters = {form: _squeezed(form) for form in {value, *near, *_far_forms(value, data)}}
            spread = {form for form in letters if len(letters[form]) >= _SHORTEST_SPREAD}
            exact |= near - spread
            for form in spread:
                self._add(letters[form])
        self._exact = tuple(sorted(exact, key=len, reverse=True))
        self._sorted = sorted(
            form[passed:] for form in self._spread for passed in range(_PASSED_ON + 1)
        )
        self._starts = frozenset(form[: _PASSED_ON + 1] for form in self._sorted)
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
        for at in range(max(len(letters) - self._longest, 0), len(letters) - _PASSED_ON):
            if letters[at : at + _PASSED_ON + 1] in self._starts and self._begins(letters[at:]):
                return min(start, places[at])
        return start

    def _begins(self, letters: bytes) -> bool:
        at = bisect_left(self._sorted, letters)
        return at < len(self._sorted) and self._sorted[at].startswith(letters)

    def _add(self, letters: bytes) -> None:
        if letters in self._spread:
            return
        self._spread.add(letters)
        for passed in {0, min(_PASSED_ON, len(letters) - _SHORTEST_SPREAD)}:
            rest = letters[passed:]
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
        self._known = SecretMatcher()
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
                # Some forms first capture words that are no secret.
                text = pattern.sub(rf"\1{MASK}" if pattern.groups else MASK, text)
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


_NAME = re.compile(
    r"SECRET|TOKEN(?!IZ)|PASSW(?:OR)?D|PASSPHRASE|PASSCODE|CREDENTIAL|COOKIE|MNEMONIC|WEBHOOK"
    r"|LICEN[CS]E|SESSION_?ID|(?:API|ACCESS|PRIVATE)_?KEY|CONN(?:ECTION)?_?STR"
    r"|(?<!ASK)(?:PASS|KEY)$|(?<!^OLD)(?<=\w)PWD$|(?:^|_)(?:AUTH|PIN)$"
    r"|(?:^|_)(?:KEY|PASS|PW|PAT|DSN|CRED|JWT|OTP|TOTP|MFA|SAS|BEARER|SALT|SEED|HMAC)S?(?:_|$)",
    re.IGNORECASE,
)
"""Words in names, and endings that people attach without a separator (`DBPASS`, `GHTOKEN`)."""
_FORM = re.compile(
    r"\bsk-[A-Za-z0-9_-]{16,}|\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|\bgh[pousr]_[A-Za-z0-9]{20,}"
    r"|\bgithub_pat_\w{20,}|\bxox[abeprs]-[\w-]{10,}|\bA(?:KI|SI)A[0-9A-Z]{16}\b|\bAIza[\w-]{35}"
    r"|\bglpat-[\w-]{16,}|\bnpm_[A-Za-z0-9]{30,}|\bpypi-[\w-]{30,}|\bhf_[A-Za-z0-9]{30,}"
    r"|\bdckr_pat_[\w-]{20,}|\bdop_v1_[0-9a-f]{32,}|\bSG\.[\w-]{16,}\.|\bAGE-SECRET-KEY-"
    r"|\beyJ[\w-]{10,1000}\.eyJ|-----BEGIN [A-Z ]{0,30}PRIVATE KEY|hooks\.slack\.com/services/"
    r"|://[^/\s:@]{0,200}:[^/\s@]{1,500}@|://[^/\s@]{20,200}@"
    r"|(?:AccountKey|SharedAccessKey|[Pp]assword|[Pp]wd)="
)
"""Secret values whatever the variable's name: keys as issuers format them, or a URL with a
password."""

_SHORTEST_MASKED = 8
_SURELY_RANDOM = 16
"""A value of at least this length is no word that could appear by chance."""
_COMMON = re.compile(
    r"(?:pass(?:word|wd)?|secret|change(?:me|it)|test(?:ing)?|admin|root|postgres|mysql|redis|guest"
    r"|user|default|example|dummy|fake|token|key|local(?:host)?|letmein|qwerty|welcome|sample|demo"
    r"|dev(?:elopment)?|prod(?:uction)?|staging|\d|[-_.!@#$])+",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://(?![^/\s]*@)", re.IGNORECASE)


def is_secret(name: str, value: str) -> bool:
    """Return whether a variable holds a secret, by its name or the form of its value."""
    return bool(_NAME.search(name) or _FORM.search(value))


def masked_values(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the values to mask wherever they appear: those of secret variables that ordinary text
    would not contain by chance."""
    secret = {name: value for name, value in environ.items() if is_secret(name, value)}
    ordinary = {value for name, value in environ.items() if name not in secret}
    for value in map(str.strip, secret.values()):
        if value not in ordinary and _is_unmistakable(value):
            yield value


def _is_unmistakable(value: str) -> bool:
    """Return False for a number, word, path, address without a password, or example password."""
    if len(value) < _SHORTEST_MASKED or len(set(value)) < _SHORTEST_MASKED // 2:
        return False
    if _ADDRESS.match(value) or _is_place(value) or _COMMON.fullmatch(value):
        return False
    if len(value) >= _SURELY_RANDOM:
        return not value.isdecimal()
    has_digit = any(character.isdigit() for character in value)
    has_letter = any(character.isalpha() for character in value)
    # `python-3.11` or `v1.2.3-rc1`: words and numbers between separators.
    parts = re.split(r"[-_./: ]", value)
    is_version = all(part.isdecimal() or part.isalpha() or len(part) <= 3 for part in parts)
    return has_letter and has_digit and not is_version


def _is_place(value: str) -> bool:
    if value.startswith(("~/", "./", "../")):
        return True
    first = "/".join(value.split("/")[:2])
    return value.startswith("/") and (os.path.lexists(first) or "." in value)
