"""Complete words in the input line: commands after `/`, files and sessions after `@`."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from itertools import accumulate
from threading import Thread
from time import monotonic

from agentcli.ui.prompt.control import Completion
from agentcli.ui.text import printable

_MOST = 50
_ENOUGH = 2_000
_FIRST_LOOK = 1_024
_PIECE = 4_096
_LONGEST_LOOK_S = 0.01
_FRESH_S = 2.0
"""How long the lists that were read count as up to date."""
_COMMAND = re.compile(r"/[\w-]*\Z")
_MENTION = re.compile(r"(?:(?<=\s)|\A)@([^\s@]*)\Z")


class Completer:
    """Completes commands, their arguments and mentions. `commands` maps names to a line of help;
    `arguments` returns what may follow a command."""

    def __init__(
        self,
        commands: Callable[[], Mapping[str, str]],
        arguments: Callable[[str, str], Sequence[Completion]],
        mentions: MentionIndex,
    ) -> None:
        self._commands = commands
        self._arguments = arguments
        self._mentions = mentions

    def __call__(self, text: str) -> tuple[int, Sequence[Completion]]:
        """Return how many characters at the end of `text` are being completed, and with what."""
        if _COMMAND.match(text):
            return len(text), fitting_commands(text[1:], self._commands())
        if text.startswith("/") and " " in text and "\n" not in text:
            name, _, argument = text[1:].partition(" ")
            return len(argument), self._arguments(name, argument)
        if mention := _MENTION.search(text):
            return len(mention[0]), self._mentions.fitting(mention[1])
        return 0, ()


def fitting_commands(typed: str, commands: Mapping[str, str]) -> list[Completion]:
    """Return the commands that begin with what is typed, then those that contain it."""
    begin = [name for name in commands if name.startswith(typed)]
    hold = [name for name in commands if typed in name and name not in begin]
    return [Completion(f"/{name} ", commands[name]) for name in [*begin, *hold]]


class MentionIndex:
    """Everything that can be mentioned. `paths` lists the files and folders of the workspace, and
    `sessions` earlier sessions. Both may take long, so they are called on a separate thread;
    `on_more` is called when there may be more matches."""

    def __init__(
        self,
        paths: Callable[[], Iterable[str]],
        sessions: Callable[[], Iterable[Completion]],
        on_more: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_more = on_more
        self._list_paths = paths
        self._list_sessions = sessions
        self._paths = PathIndex([])
        self._sessions: list[Completion] = []
        self._reader: Thread | None = None
        self._read_at: float | None = None
        """When the lists were last read completely; None while they are being read."""
        self._has_read = False

    def fitting(self, typed: str) -> list[Completion]:
        """Return the matches known so far. At first they may be few, and a new mention looks again
        for what is new; `on_more` is called once everything has been read."""
        is_old = self._read_at is not None and monotonic() - self._read_at > _FRESH_S
        if self._reader is None or (not typed and is_old):
            self._reader = Thread(target=self._read, name="files to mention", daemon=True)
            self._reader.start()
            # This is enough to read a typical repository, and too short to be noticed.
            self._reader.join(0.05)
        paths = self._paths.best(typed)
        found = [Completion(f'@"{p}" ' if re.search(r"\s", p) else f"@{p} ") for p in paths]
        wanted = typed.casefold().removeprefix("session:")
        sessions = [
            each
            for each in self._sessions
            if wanted and (wanted in each.text.casefold() or wanted in each.help.casefold())
        ]
        return [*found, *sessions][:_MOST]

    def _read(self) -> None:
        self._read_at = None
        known: list[str] = []
        for path in self._list_paths():
            if path.isprintable():
                known.append(path)
            so_far = len(known) & (len(known) - 1) == 0 and len(known) >= _FIRST_LOOK
            if so_far and not self._has_read:
                self._paths = PathIndex(list(known))
        self._paths = PathIndex(known)
        self._sessions = list(self._list_sessions())
        self._read_at, self._has_read = monotonic(), True
        self._on_more()


class PathIndex:
    """An immutable index that searches all paths as one string, which takes a millisecond for
    50,000 of them. Folders end with `/`."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths
        lower = [path.casefold() for path in paths]
        self._whole = _Rows(lower)
        self._names = _Rows([path.rstrip("/").rpartition("/")[2] for path in lower])
        self._first = nsmallest(_MOST, paths, key=lambda path: (path.rstrip("/").count("/"), path))

    def best(self, typed: str) -> list[str]:
        """Return at most 50 matches, short ones first: names that begin with `typed`, then names
        and paths that contain it, then paths with its letters in this order."""
        wanted = typed.casefold()
        if not wanted:
            return self._first
        found: dict[int, None] = {}
        for search, text in (
            (self._names.holding, f"\n{wanted}"),
            (self._names.holding, wanted),
            (self._whole.holding, wanted),
            (self._whole.with_letters, wanted),
        ):
            more = (index for index in search(text) if index not in found)
            for index in nsmallest(_MOST, more, key=lambda index: len(self._paths[index])):
                found[index] = None
            if len(found) >= _MOST:
                break
        return [self._paths[index] for index in found][:_MOST]


class _Rows:
    """Rows joined to one text, each after a newline."""

    def __init__(self, rows: Sequence[str]) -> None:
        self._text = "\n".join(["", *rows])
        self._starts = list(accumulate((len(row) + 1 for row in rows), initial=0))[:-1]

    def holding(self, wanted: str) -> Iterator[int]:
        """Yield the numbers of rows that contain `wanted`, in order, up to a limit. If it starts
        with a newline, these are the rows that begin with the rest."""
        at = self._text.find(wanted)
        for _ in range(_ENOUGH):
            if at < 0:
                return
            row = bisect_right(self._starts, at) - 1
            yield row
            after = self._starts[row + 1] if row + 1 < len(self._starts) else len(self._text)
            at = self._text.find(wanted, after)

    def with_letters(self, wanted: str) -> Iterator[int]:
        """Yield the numbers of rows with these characters in this order, as far as they can be
        searched in a hundredth of a second."""
        loose = re.compile("[^\n]*?".join(map(re.escape, wanted)))
        until, at = monotonic() + _LONGEST_LOOK_S, 0
        while at < len(self._text) and monotonic() < until:
            end = self._text.find("\n", at + _PIECE)
            end = len(self._text) if end < 0 else end
            last = -1
            for match in loose.finditer(self._text, at, end):
                row = bisect_right(self._starts, match.start()) - 1
                if row != last:
                    yield row
                last = row
            at = end


def with_folders(files: Iterable[str]) -> Iterator[str]:
    """Yield the files and their folders: each folder once, before its first file, ending in `/`."""
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
