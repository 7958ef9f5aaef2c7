"""Commands that users define: Markdown files whose text is sent in place of `/name`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agentcli.knowledge.definition_files import project_texts, split_arguments, user_texts
from agentcli.knowledge.front_matter import parse
from agentcli.workspace.bounded_files import UnreadableText

Whose = Literal["yours", "project"]

MAX_COMMAND_BYTES = 64 * 1024
MOST_COMMANDS = 200
_SUFFIXES = (".md",)
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
            raise UnreadableText("has a name that is not made of letters, digits, _ and -")
        if not body:
            raise UnreadableText("has no text")
        description = header.text("description") or body.partition("\n")[0]
        return cls(name, whose, shown, body, description, header.text("argument-hint"))

    def text(self, arguments: str) -> str:
        """Return the text to send. $ARGUMENTS stands for everything after the command's name, and
        $1 … $9 for its words, split as by a shell. If the text uses none of these, the arguments
        are appended."""
        words = split_arguments(arguments)

        def value(place: re.Match[str]) -> str:
            if place[1] is None:
                return arguments
            number = int(place[1])
            return words[number - 1] if number <= len(words) else ""

        text, count = _PLACE.subn(value, self.body)
        return text if count or not arguments else f"{text}\n\n{arguments}"


def commands_of_user(folder: Path, notices: list[str]) -> Iterator[OwnCommand]:
    """Yield the commands in the user's own folder; add what is left out to `notices`."""
    texts = user_texts(folder, _SUFFIXES, MAX_COMMAND_BYTES, MOST_COMMANDS, notices)
    return _commands(texts, "yours", notices)


def commands_of_project(files: Mapping[str, bytes], notices: list[str]) -> Iterator[OwnCommand]:
    """Yield the commands among `files`, by path in the project, which must be trusted already."""
    return _commands(project_texts(files, _SUFFIXES, MOST_COMMANDS), "project", notices)


def _commands(
    texts: Iterable[tuple[str, str]], whose: Whose, notices: list[str]
) -> Iterator[OwnCommand]:
    for shown, text in texts:
        try:
            yield OwnCommand.of(Path(shown).stem, whose, shown, text)
        except UnreadableText as why:
            notices.append(f"{shown} {why}; it is left out")
