"""Splits text files into text and form, and joins them again so that only the edit changes."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

from agentcli.errors import ToolError

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
    def final_newline(self) -> bool:
        return self.text.endswith("\n")

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
        raise ToolError(f"{shown}: {reason}", error_id=_error_id(error)) from error


def _error_id(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "file_not_found"
    return "permission_denied" if isinstance(error, PermissionError) else "file_error"


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
