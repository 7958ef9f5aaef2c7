"""Tells in which encoding a text file is: by what it declares, else by its bytes.

Every reading that is returned reproduces the bytes: what is decoded and encoded again is the same.
So an edit changes only what it means to.
"""

from __future__ import annotations

import codecs
import contextlib
import re
from dataclasses import dataclass

BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
AS_IT_DECLARES = "as it declares"
BOM_OF = {encoding: bom for bom, encoding in BOMS}
_RARE_IN_TEXT = bytes([*range(8), 14, 15, *range(16, 27), *range(28, 32), 127])


Charset = tuple[str, str]
"""What another file says of the encoding, and the name of that file."""
NO_CHARSET: Charset = ("", "")


@dataclass(frozen=True, slots=True)
class Reading:
    """A file's text and how its bytes were understood. `declared` says where the encoding is
    declared, in words that follow it; a `guessed` one may be wrong."""

    text: str
    encoding: str = "utf-8"
    bom: bytes = b""
    declared: str = ""
    guessed: bool = False


def read_bytes_as_text(
    data: bytes, name: str = "", charset: Charset = NO_CHARSET
) -> Reading | None:
    """Return the reading of a file called `name`, or None for binary data. What is
    declared is believed unless the bytes contradict it."""
    for bom, encoding in BOMS:
        if data.startswith(bom):
            with contextlib.suppress(UnicodeDecodeError):
                text = data[len(bom) :].decode(encoding)
                return None if "\0" in text else Reading(text, encoding, bom)
    if (declared := _as_declared(data, name, charset)) is not None:
        return None if "\0" in declared.text else declared
    if b"\0" in data:
        return None
    with contextlib.suppress(UnicodeDecodeError):
        return Reading(data.decode("utf-8"))
    rare = len(data) - len(data.translate(None, delete=_RARE_IN_TEXT))
    if rare * 20 > len(data):
        return None
    western = _western(data)
    return _guess(data) if western is None else Reading(western, "cp1252")


def start_as_text(data: bytes, name: str = "", charset: Charset = NO_CHARSET) -> Reading | None:
    """Like `read_bytes_as_text`, for the beginning of a file, which may end within a character."""
    if data.startswith((BOM_OF["utf-16-le"], BOM_OF["utf-16-be"])):
        return read_bytes_as_text(data[: len(data) // 2 * 2], name, charset)
    whole = data[: data.rfind(b"\n") + 1] or data
    with contextlib.suppress(UnicodeDecodeError):
        # This decoder waits for the rest of the last character.
        whole = codecs.getincrementaldecoder("utf-8")().decode(whole).encode()
    return read_bytes_as_text(whole, name, charset)


def _as_declared(data: bytes, name: str, charset: Charset) -> Reading | None:
    """Return the reading as declared; None if nothing is, or it says UTF-8, or the bytes are
    something else."""
    place = AS_IT_DECLARES
    encoding = declaration(data[:DECLARING_BYTES].decode("latin-1"), name)
    if not encoding and charset[0]:
        encoding, place = known_encoding(charset[0]), f"as {charset[1]} says"
        if encoding.startswith("utf-16") and b"\0" not in data:
            return None
    if not encoding or encoding == "utf-8":
        return None
    for each in (encoding, _WIDER.get(encoding)):
        if each and (text := exactly(data, each)) is not None:
            return Reading(text, each, declared=place)
    return None


def exactly(data: bytes, encoding: str) -> str | None:
    """Return `data` decoded, or None if `encoding` can't reproduce every byte of it."""
    with contextlib.suppress(UnicodeError):
        text = data.decode(encoding)
        if text.encode(encoding) == data:
            return text
    return None


def known_encoding(name: str) -> str:
    """Return Python's name of a text encoding, "" for one that is not known. UTF-16 without a byte
    order is little endian, as Windows writes it."""
    plain = name.strip().lower().replace("_", "-").removesuffix("-bom").removesuffix("-sig")
    if plain in ("utf-16", "utf16", "unicode"):
        return "utf-16-le"
    with contextlib.suppress(LookupError, ValueError):
        info = codecs.lookup(plain)
        # Codecs such as base64 and rot13 are no encodings of text; the others change its letters.
        if getattr(info, "_is_text_encoding", True) and info.name not in _NO_ENCODINGS:
            return info.name
    return ""


def form_named(name: str) -> tuple[str, bytes] | None:
    """Return encoding and BOM of new text in the encoding `name`; None if there is none."""
    encoding = known_encoding(name)
    marked = encoding.startswith("utf-16") or name.strip().lower() in ("utf-8-bom", "utf-8-sig")
    return (encoding, BOM_OF[encoding] if marked else b"") if encoding else None


_NO_ENCODINGS = ("idna", "punycode", "raw-unicode-escape", "unicode-escape", "undefined")


# --- declarations -------------------------------------------------------------------------------

DECLARING_BYTES = 1024
"""As many as HTML's standard has browsers look through; the other declarations come earlier."""
# https://docs.python.org/3/reference/lexical_analysis.html#encoding-declarations; the second line
# counts only after a comment. Ruby's magic comment has the same form.
_COOKIE = re.compile(r"(?:[ \t\f]*(?:#.*)?\r?\n)?[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", re.ASCII)
_COOKIE_NAMES = (".py", ".pyw", ".pyi", ".pyx", ".pxd", ".rb", ".rake")
_COOKIE_PROGRAM = re.compile(r"#!.*\b(?:python|ruby)")
# Emacs and Vim, in any kind of comment within the first two lines.
_EDITORS = re.compile(
    r"(?:.*\n)?.*?(?:-\*-.*?\bcoding:[ \t]*([-\w.]+).*?-\*-|\bvim?:.*?\bfileencoding=([-\w.]+))",
    re.ASCII,
)
_XML = re.compile(r"""<\?xml\b[^>]*?\bencoding\s*=\s*["']([-\w.:]+)["']""", re.ASCII)
_HTML = re.compile(r"""<meta\b[^>]*?\bcharset\s*=\s*["']?\s*([-\w.:]+)""", re.ASCII | re.IGNORECASE)
_HTML_NAMES = (".html", ".htm", ".xhtml", ".shtml", ".hta")
_IS_HTML = re.compile(r"\s*<(?:!doctype\s+html|html)\b", re.IGNORECASE)
_CSS = re.compile(r'@charset "([-\w.:]+)";', re.ASCII)
# What browsers take these names for (https://encoding.spec.whatwg.org/#names-and-labels).
_AS_BROWSERS = {
    **dict.fromkeys(("iso8859-1", "ascii"), "cp1252"),
    **dict.fromkeys(("gb2312", "gbk"), "gb18030"),
    **dict.fromkeys(("utf-16-le", "utf-16-be"), "utf-8"),
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "iso8859-9": "cp1254",
}


# Files named by the first often hold what only the second has.
_WIDER = {
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
}


def declaration(text: str, name: str) -> str:
    """Return the encoding that the beginning of a file called `name` declares; "" if none, or one
    in which the declaration itself could not be read."""
    encoding = _declared(text[:DECLARING_BYTES], name.lower())
    return encoding if encoding and "<#a".encode(encoding) == b"<#a" else ""


def _declared(text: str, lower: str) -> str:
    if found := _XML.match(text):
        return known_encoding(found[1])
    if lower.endswith(_HTML_NAMES) or _IS_HTML.match(text):
        found = _HTML.search(text)
        encoding = known_encoding(found[1]) if found else ""
        return _AS_BROWSERS.get(encoding, encoding)
    if lower.endswith(".css"):
        found = _CSS.match(text)
        return known_encoding(found[1]) if found else ""
    first_lines = "".join(text.splitlines(keepends=True)[:2])
    if lower.endswith(_COOKIE_NAMES) or _COOKIE_PROGRAM.match(first_lines):
        if found := _COOKIE.match(first_lines):
            return known_encoding(found[1])
        return ""
    if found := _EDITORS.match(first_lines):
        # Emacs's names may end with the line ending: latin-1-unix.
        told = re.sub(r"-(?:unix|dos|mac)$", "", found[1] or found[2])
        return known_encoding(told)
    return ""


# --- bytes --------------------------------------------------------------------------------------

_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_LONG_RUN = re.compile(r"[^\x00-\x7f]{4}")
_DOUBLE_BYTE = ("cp932", "gbk", "big5", "cp949", "euc_jp")
CANDIDATES = (
    *("gb18030", "cp932", "big5", "euc_jp", "cp949", "cp1251", "koi8_r", "cp1250", "cp1253"),
    *("cp1254", "cp1255", "cp1256", "iso8859_2", "mac_roman", "cp866", "cp437"),
)
_GUESSED_FROM = 8_000
"""Bytes around the first that is not ASCII; more take longer, and tell no more."""


def _western(data: bytes) -> str | None:
    """Return the text if the bytes fit cp1252: its letters and signs stand alone among ASCII, and
    in no encoding of East Asia they would be words."""
    text = exactly(data, "cp1252")
    if text is None or _LONG_RUN.search(text) or not _stand_alone(text):
        return None
    others = (exactly(data, encoding) for encoding in _DOUBLE_BYTE)
    return text if all(other is None or _stand_alone(other) for other in others) else None


def _stand_alone(text: str) -> bool:
    """Return whether most characters beyond ASCII have no other beside them."""
    runs = _NOT_ASCII.findall(text)
    return 2 * sum(len(run) == 1 for run in runs) >= len(runs)


def _guess(data: bytes) -> Reading:
    """Return the likeliest reading; Latin-1 stands for an unknown encoding, as it fits any byte."""
    from charset_normalizer import from_bytes

    first = len(data) - len(data.lstrip(bytes(range(128))))
    start = data.rfind(b"\n", 0, first) + 1
    sample = data[start : start + _GUESSED_FROM]
    if len(sample) == _GUESSED_FROM:
        sample = sample[: sample.rfind(b"\n") + 1] or sample
    for match in from_bytes(sample, cp_isolation=list(CANDIDATES)):
        if (text := exactly(data, match.encoding)) is not None:
            return Reading(text, match.encoding, guessed=True)
    return Reading(data.decode("latin-1"), "latin-1", guessed=True)
