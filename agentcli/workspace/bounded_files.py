"""Reads text files of an untrusted folder so that none of them can do harm."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agentcli.workspace.private import NotRegular, read_regular

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
