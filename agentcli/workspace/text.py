"""Splits text files into text and form, and joins them again so that only the edit changes."""

from __future__ import annotations

import codecs
import contextlib
import hashlib
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from agentcli.errors import ToolError
from agentcli.workspace.encodings import (
    AS_IT_DECLARES,
    NO_CHARSET,
    Charset,
    Reading,
    declaration,
    exactly,
    form_named,
    known_encoding,
    read_bytes_as_text,
)
from agentcli.workspace.private import NotRegular, read_regular

MAX_FILE_BYTES = 10_000_000

# The lookbehind keeps a long run of \r without \n from being rescanned at each position.
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_LINE_ENDING = re.compile(r"(?<!\r)\r*\n")


@dataclass(frozen=True, slots=True)
class TextFile:
    """A text file split into its text and its form.

    `text` has `\\n` line endings; `digest` is that of the bytes. `newline` is the most common line
    ending, or None if the text is to be written with the endings it has. `endings` holds the ending
    of each line if they differ.
    """

    text: str
    encoding: str = "utf-8"
    bom: bytes = b""
    newline: str | None = "\n"
    endings: tuple[str, ...] = ()
    digest: str = ""
    declared: str = ""
    """Where the encoding is declared, in words that follow it."""
    guessed: bool = False
    """Whether the encoding may be another one, so that only text that is there can be written."""
    chosen: bool = False
    """Whether the encoding was asked for, and does not come from the bytes."""

    @property
    def original(self) -> str:
        """The text with its line endings as on disk."""
        return _restore_endings(self.text, self)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@contextlib.contextmanager
def os_errors_told(shown: str) -> Iterator[None]:
    """Turn OSError into a ToolError that the model can understand and act on."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        error_id = "permission_denied" if isinstance(error, PermissionError) else "file_error"
        error_id = "file_not_found" if isinstance(error, FileNotFoundError) else error_id
        raise ToolError(f"{shown}: {reason}", error_id=error_id) from error


# --- reading ------------------------------------------------------------------------------------


def split_lines(text: str) -> list[str]:
    """Split `text` at `\\n` only, so that line numbers agree with other programs."""
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def text_file(data: bytes, name: str = "", charset: Charset = NO_CHARSET) -> TextFile | None:
    """Split the content of a file called `name` into a TextFile; None for binary data. `charset` is
    what another file says of it, and which."""
    found = read_bytes_as_text(data, name, charset)
    return None if found is None else _text_file(found, data)


def text_file_in(data: bytes, encoding: str, now: TextFile, shown: str) -> TextFile:
    """Return `now`, the file of these bytes, as the caller says it is encoded: read that way if its
    bytes allow it, else to be converted. Raises ToolError if that can't be done."""
    known = known_encoding(encoding)
    if known == now.encoding:
        return replace(now, guessed=False)
    if known and not now.bom and (text := exactly(data, known)) is not None and "\0" not in text:
        as_said = _text_file(Reading(text, known), data)
        return as_said if not data.isascii() else replace(as_said, chosen=True)
    if now.guessed and known:
        raise ToolError(
            f"{shown} is not encoded as {known}: its bytes don't fit. Nothing was written.",
            error_id="encoding",
        )
    return to_encoding(now, encoding)


def to_encoding(now: TextFile, encoding: str) -> TextFile:
    """Return the form of `now`, but for text to be written in another encoding. Raises
    ToolError."""
    form = form_named(encoding)
    if form is None:
        raise ToolError(f"There is no text encoding {encoding!r}.", error_id="encoding")
    return replace(now, encoding=form[0], bom=form[1], guessed=False, chosen=True)


def _text_file(found: Reading, data: bytes) -> TextFile:
    text, newline, endings = _split_endings(found.text)
    return TextFile(
        text,
        found.encoding,
        found.bom,
        newline,
        endings,
        digest(data),
        found.declared,
        found.guessed,
    )


def _split_endings(text: str) -> tuple[str, str, tuple[str, ...]]:
    if "\r" not in text:
        return text, "\n", ()
    if "\n" not in text:
        return text.replace("\r", "\n"), "\r", ()
    endings = tuple(_LINE_ENDING.findall(text))
    kinds = Counter(endings)
    [(dominant, _)] = kinds.most_common(1)
    return _LINE_ENDING.sub("\n", text), dominant, endings if len(kinds) > 1 else ()


# --- writing ------------------------------------------------------------------------------------


def encode(text: str, like: TextFile, name: str, shown: str) -> tuple[bytes, str]:
    """Return `text` in the form of `like`, and its encoding. If the text of a file called `name`
    declares another encoding than before, that is used. Raises ToolError for what the encoding
    can't hold, or may not hold because it is guessed."""
    whole = _restore_endings(text, like)
    encoding, bom = _encoding_for(text, like, name, shown)
    new = _unknown_text(text, like.text if encoding == like.encoding else "")
    if like.guessed and new:
        known = like.encoding if encoding == like.encoding else encoding
        raise ToolError(
            f"The encoding of {shown} is only guessed ({like.encoding}), so {_characters(new)} "
            "can't be written safely: nothing was written. If you know the encoding, repeat this "
            f"with it, such as encoding={known!r}; else write plain ASCII.",
            error_id="encoding",
        )
    try:
        data = whole.encode(encoding)
    except UnicodeEncodeError as error:
        raise _lacking(shown, encoding, error.object[error.start : error.end]) from error
    # Some codecs replace what they lack: Python's shift_jis makes a yen sign a backslash.
    if not encoding.startswith("utf-") and (back := data.decode(encoding)) != whole:
        wrong = next(a for a, b in zip(whole, back, strict=False) if a != b)
        raise _lacking(shown, encoding, wrong)
    return bom + data, encoding


def _encoding_for(text: str, like: TextFile, name: str, shown: str) -> tuple[str, bytes]:
    """Return the encoding and BOM for `text`. Raises ToolError if the one asked for is not the one
    that the text declares."""
    if like.encoding.startswith("utf-16") or (like.bom and not like.chosen):
        return like.encoding, like.bom
    now = declaration(text, name)
    if like.chosen:
        if now and now != like.encoding and not text.isascii():
            raise ToolError(
                f"{shown} declares {now}, so it can't be written in {like.encoding}: nothing was "
                "written. Change the declaration as well.",
                error_id="encoding",
            )
    elif now and now != declaration(like.text, name):
        return now, b""
    elif like.declared == AS_IT_DECLARES and not now:
        # The default of Python, Ruby, CSS and XML, and what HTML must be.
        return "utf-8", b""
    return like.encoding, like.bom


def _unknown_text(new: str, old: str) -> str:
    """Return the first text beyond ASCII in `new` that is not in `old`; its bytes aren't known."""
    runs = (found[0] for found in _NOT_ASCII.finditer(new))
    return next((run for run in runs if run not in old), "")


def _lacking(shown: str, encoding: str, text: str) -> ToolError:
    return ToolError(
        f"{shown} is encoded as {encoding}, which has no {_characters(text)}: nothing was written. "
        "Write something else, such as an escape; or convert the file with encoding='utf-8' and "
        "change what declares its encoding.",
        error_id="encoding",
    )


def _characters(text: str) -> str:
    codes = text[:1].encode("unicode_escape").decode()
    return f"{text[:20]} ({codes})" if text.isprintable() else codes


def _restore_endings(text: str, like: TextFile) -> str:
    if like.newline is None:
        return text
    if "\r" in text:
        text = _LINE_ENDING.sub("\n", text)
    if not like.endings:
        return text if like.newline == "\n" else text.replace("\n", like.newline)
    *lines, last = text.split("\n")
    endings = [like.newline] * len(lines)
    for old, new, size in _common_runs(like.text.split("\n")[:-1], lines):
        endings[new : new + size] = like.endings[old : old + size]
    return "".join(map("".join, zip(lines, endings, strict=True))) + last


def common_ends(old: list[str], new: list[str]) -> tuple[int, int]:
    """Return how many lines both have in common at the start, and how many more at the end."""
    shorter = min(len(old), len(new))
    head = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    left = shorter - head
    return head, next((i for i in range(left) if old[-1 - i] != new[-1 - i]), left)


def _common_runs(old: list[str], new: list[str]) -> Iterator[tuple[int, int, int]]:
    """Yield runs of equal lines as (place in `old`, place in `new`, length). If the middle is too
    big to compare quickly, only the runs at both ends."""
    head, tail = common_ends(old, new)
    yield 0, 0, head
    yield len(old) - tail, len(new) - tail, tail
    middle_old, middle_new = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(middle_old) * len(middle_new) <= 1_000_000:
        matcher = SequenceMatcher(None, middle_old, middle_new, autojunk=False)
        for a, b, size in matcher.get_matching_blocks():
            yield head + a, head + b, size


_LONG_KEY = re.compile(
    r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){50}""", re.ASCII
)
"""tomllib's time and memory grow with the square of a key's parts: 7 GB for a key of 30,000."""


class LongKeyError(ValueError):
    """The text may be valid TOML, but finding out would cost too much."""

    def __init__(self) -> None:
        super().__init__("a key has more than 50 parts")


def toml_text(data: bytes) -> str:
    """Return the text of a TOML file, without the byte order mark that Windows' editors put first.
    Raises ValueError if it is not UTF-8."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in data[:2]:
        raise ValueError("it is UTF-16; save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 (at byte {error.start + 1})") from error


def load_toml(text: str) -> dict[str, Any]:
    """Parse TOML. Raises ValueError, RecursionError; LongKeyError is a ValueError."""
    if _LONG_KEY.search(text):
        raise LongKeyError
    return tomllib.loads(text)


_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class UnreadableText(Exception):
    """Says why a file is left out, in words that follow its name."""


@dataclass(frozen=True)
class BoundedText:
    """`text` holds no NUL and, if `cut`, ends with a whole line. `size` is that of the whole file,
    in bytes; `path` is where the file really is."""

    path: Path
    text: str
    size: int
    cut: bool


def nothing_against(path: Path) -> str:
    """Let every file be read."""
    return ""


def read_bounded(
    path: Path,
    limit: int,
    within: Path | None,
    objection: Callable[[Path], str] = nothing_against,
) -> BoundedText | None:
    """Read the first `limit` bytes of a text file; None if there is no such file. `objection` says
    why a resolved path may not be read, in words that follow its name.

    Never waits (a FIFO is not a file) and never follows a symlink out of `within`, a resolved
    folder; with None, symlinks may lead anywhere. Invalid UTF-8 becomes U+FFFD. Raises
    UnreadableText.
    """
    try:
        real = path.resolve(strict=True)
    except (FileNotFoundError, NotADirectoryError) as error:
        if path.is_symlink():
            raise UnreadableText("is a link to nothing") from error
        return None
    except (OSError, RuntimeError) as error:
        raise UnreadableText(f"can't be read: {_reason(error)}") from error
    if within is not None and not real.is_relative_to(within):
        raise UnreadableText(f"is a link that leads outside {within}")
    if why := objection(real):
        raise UnreadableText(why)
    try:
        data, status = read_regular(real, limit)
    except (NotRegular, IsADirectoryError) as error:
        raise UnreadableText("is not a regular file") from error
    except OSError as error:
        raise UnreadableText(f"can't be read: {_reason(error)}") from error
    cut = status.st_size > limit
    return BoundedText(real, _decoded(data, cut=cut), status.st_size, cut)


def _decoded(data: bytes, *, cut: bool) -> str:
    """Raises UnreadableText if `data` is not text."""
    if data.startswith(_UTF16):
        text = data.decode("utf-16", errors="replace")
    else:
        if b"\0" in data:
            raise UnreadableText("is not text")
        text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8", errors="replace")
    text = text.replace("\0", "").replace("\r\n", "\n")
    if cut:
        whole = text.rfind("\n") + 1
        return text[:whole] or text.rstrip("\ufffd")
    return text


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
