"""Splits text files into text and form, and writes them back so that only the edit changes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import BinaryIO

from agentcli.errors import ToolError
from agentcli.files.guard import Guard
from agentcli.files.names import display_path, size_text
from agentcli.files.opening import name_on_disk, open_file, open_folder, require_regular
from agentcli.files.private import copy_owner_and_mode

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
    mode: int = 0o644
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


@contextlib.contextmanager
def opened(path: Path, guard: Guard | None = None) -> Iterator[BinaryIO]:
    """Open a regular file for reading. Raises ToolError if it is anything else, or if `guard` does
    not allow it to be read."""
    guard = guard or Guard(None)
    shown = display_path(path)
    with os_errors_told(shown):
        guard.judge_name(path)
        with open(open_file(path, guard.judge_reading), "rb") as file:
            guard.judge_inode(os.fstat(file.fileno()), shown)
            yield file


def read_bytes(
    path: Path, limit: int = MAX_FILE_BYTES, guard: Guard | None = None
) -> tuple[bytes, os.stat_result]:
    """Return all bytes of a regular file and its status. Raises ToolError if it is anything else,
    has more than `limit` bytes, or if `guard` does not allow it to be read."""
    shown = display_path(path)
    with opened(path, guard) as file:
        info = os.fstat(file.fileno())
        data = file.read(limit + 1)
    if len(data) > limit:
        total = max(info.st_size, len(data))
        raise ToolError(
            f"{shown} has {size_text(total)}, more than the {size_text(limit)} that the file tools "
            "take; use bash (grep, head, tail, sed -n '1,200p', cut -c).",
            error_id="file_too_large",
        )
    return data, info


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


def text_file(data: bytes, mode: int = 0o644) -> TextFile | None:
    """Split `data` into a TextFile; None for binary data."""
    decoded = decode(data)
    if decoded is None:
        return None
    original, encoding, bom = decoded
    text, newline, endings = _split_endings(original)
    return TextFile(text, encoding, bom, newline, endings, mode, digest(data))


def read_text(path: Path, guard: Guard | None = None) -> TextFile:
    """Read a text file. Raises ToolError if it is not a regular text file of at most
    MAX_FILE_BYTES, or if `guard` does not allow it to be read."""
    data, info = read_bytes(path, guard=guard)
    file = text_file(data, stat.S_IMODE(info.st_mode))
    if file is None:
        shown = display_path(path)
        raise ToolError(f"{shown} is a binary file, not text.", error_id="binary_file")
    return file


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


def write_text(
    path: Path, text: str, like: TextFile | None = None, guard: Guard | None = None
) -> str:
    """Replace or create a file in one step and return its digest.

    Encoding, BOM and line endings come from `like`, the mode from the file that is replaced. If
    `path` is a symlink, it stays and its target is written. Raises ToolError if `path` leads to
    where `guard` forbids writing, even if one of its folders becomes a symlink meanwhile.
    """
    guard = guard or Guard(None)
    shown = display_path(path)
    data = encode(text, like, shown)
    with os_errors_told(shown):
        guard.judge_name(path)
        target = Path(os.path.realpath(path))
        guard.judge_writing(target)
        _replace(target, data, shown, guard)
    return digest(data)


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


def _replace(target: Path, data: bytes, shown: str, guard: Guard) -> None:
    folder = open_folder(target.parent, make=True)
    temporary = f".agent-{os.urandom(8).hex()}.tmp"
    try:
        if (name := name_on_disk(folder)) is not None:
            guard.judge_writing(name / target.name)
        before = _existing(target.name, folder, shown)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        handle = os.open(temporary, flags, 0o666 if before is None else 0o600, dir_fd=folder)
        try:
            with open(handle, "wb") as file:
                if before is not None:
                    owner = before.st_uid, before.st_gid
                    copy_owner_and_mode(handle, owner, before.st_mode)
                file.write(data)
                file.flush()
                os.fsync(handle)
            os.rename(temporary, target.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(temporary, dir_fd=folder)
            raise
    finally:
        os.close(folder)


def _existing(name: str, folder: int, shown: str) -> os.stat_result | None:
    try:
        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    require_regular(info.st_mode, shown)
    # Renaming over a file needs no write permission on it; respect that it is missing.
    if not os.access(name, os.W_OK, dir_fd=folder):
        raise ToolError(f"{shown} is read-only.", error_id="permission_denied")
    return info
