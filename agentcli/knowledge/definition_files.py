"""Read the Markdown and TOML files in which users define commands and agents."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from agentcli.workspace.bounded_files import UnreadableText, read_bounded


def user_texts(
    folder: Path, suffixes: tuple[str, ...], max_bytes: int, most: int, notices: list[str]
) -> Iterator[tuple[str, str]]:
    """Yield path and text of the first `most` files in a folder of the user's own, where links are
    followed; add what is left out to `notices`."""
    paths: list[Path] = []
    with suppress(OSError):
        paths = sorted(path for path in folder.iterdir() if path.suffix in suffixes)
    for path in paths[:most]:
        try:
            read = read_bounded(path, max_bytes, None)
            if read is not None and read.cut:
                raise UnreadableText(f"has more than {max_bytes // 1024} kB")
            if read is not None:
                yield str(path), read.text
        except UnreadableText as why:
            notices.append(f"{path} {why}; it is left out")


def project_texts(
    files: Mapping[str, bytes], suffixes: tuple[str, ...], most: int
) -> Iterator[tuple[str, str]]:
    """Yield path and text of the first `most` files of a project, which must be trusted already."""
    for shown in sorted(name for name in files if name.endswith(suffixes))[:most]:
        yield shown, files[shown].decode("utf-8", "replace")


def split_arguments(text: str) -> list[str]:
    """Split arguments as a shell does, or at blanks if their quotes don't match."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
