"""Commands that users define: Markdown files whose text is sent in place of `/name`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agentcli.files.bounded_files import UnreadableText, read_bounded
from agentcli.knowledge.front_matter import parse

Whose = Literal["yours", "project"]

MAX_COMMAND_BYTES = 64 * 1024
MOST_COMMANDS = 200
_NAME = re.compile(r"[\w-]{1,64}")
_PLACE = re.compile(r"\$(?:ARGUMENTS\b|([1-9])(?!\d))")


@dataclass(frozen=True)
class OwnCommand:
    """A command from a Markdown file. `takes` is its author's hint at the arguments; `shown` says
    where the file is."""

    name: str
    whose: Whose
    shown: str
    body: str
    description: str = ""
    takes: str = ""

    @classmethod
    def of(cls, name: str, whose: Whose, shown: str, text: str) -> OwnCommand:
        """Parse a command's file. Raises UnreadableText for a bad name, a damaged header or an
        empty body."""
        header = parse(text)
        body = header.body.strip()
        if not _NAME.fullmatch(name):
            raise UnreadableText("has a name that is not of letters, digits, _ and -")
        if not body:
            raise UnreadableText("has no text")
        description = header.text("description") or body.partition("\n")[0]
        return cls(name, whose, shown, body, description, header.text("argument-hint"))

    def text(self, arguments: str) -> str:
        """Return the text to send. $ARGUMENTS stands for everything after the command's name, and
        $1 … $9 for its words, split as by a shell. If the text uses none of these, the arguments
        are appended."""
        words = _words(arguments)

        def value(place: re.Match[str]) -> str:
            if place[1] is None:
                return arguments
            number = int(place[1])
            return words[number - 1] if number <= len(words) else ""

        text, count = _PLACE.subn(value, self.body)
        return text if count or not arguments else f"{text}\n\n{arguments}"


def commands_of_user(folder: Path, notices: list[str]) -> Iterator[OwnCommand]:
    """Yield the commands in the user's own folder, where links are followed; add what is left out
    to `notices`."""
    paths: list[Path] = []
    with suppress(OSError):
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".md")
    for path in paths[:MOST_COMMANDS]:
        try:
            read = read_bounded(path, MAX_COMMAND_BYTES, None)
            if read is not None and read.cut:
                raise UnreadableText(f"has more than {MAX_COMMAND_BYTES // 1024} kB")
            if read is not None:
                yield OwnCommand.of(path.stem, "yours", str(path), read.text)
        except UnreadableText as why:
            notices.append(f"{path} {why}; it is left out")


def commands_of_project(files: Mapping[str, bytes], notices: list[str]) -> Iterator[OwnCommand]:
    """Yield the commands among `files`, by path in the project, which must be trusted already."""
    for shown in sorted(name for name in files if name.endswith(".md"))[:MOST_COMMANDS]:
        try:
            text = files[shown].decode("utf-8", "replace")
            yield OwnCommand.of(Path(shown).stem, "project", shown, text)
        except UnreadableText as why:
            notices.append(f"{shown} {why}; it is left out")


def _words(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()
