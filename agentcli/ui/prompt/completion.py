"""Completions in the input line: commands after `/`, files and sessions after `@`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import Thread

from agentcli.ui.prompt.control import Completion
from agentcli.ui.sanitize import printable

_MOST = 50
_COMMAND = re.compile(r"/[\w-]*\Z")
_MENTION = re.compile(r"(?:(?<=\s)|\A)@([^\s@]*)\Z")


class Completer:
    """`commands` maps names to a line of help, `arguments` gives what may follow a command.
    `paths` lists the files of the workspace and `sessions` the earlier ones, both by name and help;
    each may take long, so they are called on a thread of their own, once."""

    def __init__(
        self,
        commands: Callable[[], Mapping[str, str]],
        arguments: Callable[[str, str], Sequence[Completion]],
        paths: Callable[[], Iterable[str]],
        sessions: Callable[[], Iterable[Completion]],
    ) -> None:
        self._commands = commands
        self._arguments = arguments
        self._mentions = MentionIndex(paths, sessions)

    def __call__(self, text: str) -> tuple[int, Sequence[Completion]]:
        """How many characters at the end of `text` are being completed, and what fits there."""
        if _COMMAND.match(text):
            return len(text), fitting_commands(text[1:], self._commands())
        if text.startswith("/") and " " in text and "\n" not in text:
            name, _, argument = text[1:].partition(" ")
            return len(argument), self._arguments(name, argument)
        if mention := _MENTION.search(text):
            return len(mention[0]), self._mentions.fitting(mention[1])
        return 0, ()


def fitting_commands(typed: str, commands: Mapping[str, str]) -> list[Completion]:
    """Those that begin with what is typed, then those that hold it."""
    begin = [name for name in commands if name.startswith(typed)]
    hold = [name for name in commands if typed in name and name not in begin]
    return [Completion(f"/{name} ", commands[name]) for name in [*begin, *hold]]


class MentionIndex:
    """What can be mentioned: files and folders of the workspace, and sessions."""

    def __init__(
        self, paths: Callable[[], Iterable[str]], sessions: Callable[[], Iterable[Completion]]
    ) -> None:
        self._list_paths = paths
        self._list_sessions = sessions
        self._paths: list[str] = []
        self._lower: list[str] = []
        self._sessions: list[Completion] = []
        self._reader: Thread | None = None
        self._last: tuple[str, int, list[int]] = ("", 0, [])

    def fitting(self, typed: str) -> list[Completion]:
        """The first time little is known yet: what is found meanwhile comes with the next key."""
        if self._reader is None:
            self._reader = Thread(target=self._read, name="files to mention", daemon=True)
            self._reader.start()
            # A usual repository is read before anyone could notice.
            self._reader.join(0.05)
        fitting = (self._paths[index] for index in self._ranked(typed))
        found = [Completion(f"@{_shown(path)} ", "") for path in fitting if path.isprintable()]
        wanted = typed.casefold().removeprefix("session:")
        sessions = [
            each
            for each in self._sessions
            if wanted and (wanted in each.text.casefold() or wanted in each.help.casefold())
        ]
        return [*found, *sessions][:_MOST]

    def is_reading(self) -> bool:
        return self._reader is not None and self._reader.is_alive()

    def _read(self) -> None:
        for path in self._list_paths():
            self._paths.append(path)
            self._lower.append(path.casefold())
        self._sessions = list(self._list_sessions())

    def _ranked(self, typed: str) -> list[int]:
        """Which paths fit, best first: by name, by a part of the path, by letters in order."""
        wanted, known = typed.casefold(), len(self._lower)
        before, count, indices = self._last
        within: Iterable[int] = range(known)
        if before and wanted.startswith(before) and count == known:
            within = indices
        loose = re.compile(".*?".join(map(re.escape, wanted)), re.DOTALL)
        lower = self._lower
        fitting = [index for index in within if loose.search(lower[index])]
        self._last = (wanted, known, fitting)
        return sorted(fitting, key=lambda index: _rank(lower[index], wanted))[:_MOST]


def _rank(path: str, wanted: str) -> tuple[int, int, str]:
    name = path.rstrip("/").rpartition("/")[2]
    if name.startswith(wanted):
        kind = 0
    elif wanted in name:
        kind = 1
    else:
        kind = 2 if wanted in path else 3
    return kind, len(path), path


def _shown(path: str) -> str:
    return f'"{path}"' if re.search(r"\s", path) else path


def with_folders(files: Iterable[str]) -> Iterator[str]:
    """The files, each folder of theirs once before the first file in it, with `/` at its end."""
    seen: set[str] = set()
    for path in files:
        folder = path.rpartition("/")[0]
        new = []
        while folder and folder not in seen:
            seen.add(folder)
            new.append(f"{printable(folder, multiline=False)}/")
            folder = folder.rpartition("/")[0]
        yield from reversed(new)
        yield path
