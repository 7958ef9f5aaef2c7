"""Splits text files into text and form, and joins them again so that only the edit changes."""

from __future__ import annotations

import codecs
import contextlib
import hashlib
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from agentcli.errors import ToolError
from agentcli.workspace.private import NotRegular, read_regular

MAX_FILE_BYTES = 10_000_000

_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
# The lookbehind keeps a long run of \r without \n from being rescanned at each position.
_LINE_ENDING = re.compile(r"(?<!\r)\r*\n")
_RARE_IN_TEXT = bytes([*range(8), 14, 15, *range(16, 27), *range(28, 32), 127])


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


def decode(data: bytes) -> tuple[str, str, bytes] | None:
    """Return text, encoding and BOM, or None for binary data. Latin-1 stands for any unknown
    encoding, because it reproduces every byte."""
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            with contextlib.suppress(UnicodeDecodeError):
                text = data[len(bom) :].decode(encoding)
                return None if "\0" in text else (text, encoding, bom)
    if b"\0" in data:
        return None
    with contextlib.suppress(UnicodeDecodeError):
        return data.decode("utf-8"), "utf-8", b""
    rare = len(data) - len(data.translate(None, delete=_RARE_IN_TEXT))
    return None if rare * 20 > len(data) else (data.decode("latin-1"), "latin-1", b"")


def split_lines(text: str) -> list[str]:
    """Split `text` at `\\n` only, so that line numbers agree with other programs."""
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def text_file(data: bytes) -> TextFile | None:
    """Split `data` into a TextFile; None for binary data."""
    decoded = decode(data)
    if decoded is None:
        return None
    original, encoding, bom = decoded
    text, newline, endings = _split_endings(original)
    return TextFile(text, encoding, bom, newline, endings, digest(data))


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


def encode(text: str, like: TextFile | None, shown: str) -> bytes:
    """Encode `text` in the form of `like`. Raises ToolError for what its encoding can't hold."""
    like = like or TextFile("", newline=None)
    try:
        return like.bom + _restore_endings(text, like).encode(like.encoding)
    except UnicodeEncodeError as error:
        bad = error.object[error.start].encode("unicode_escape").decode()
        raise ToolError(
            f"{shown} is encoded as {like.encoding}, which has no {bad}: nothing was written.",
            error_id="encoding",
        ) from error


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
