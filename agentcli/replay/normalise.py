"""Texts of two runs of the same work, made comparable: what differs by itself is replaced by what
it is. docs/records.md declares all of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta

from agentcli.events import volatile

_PORTS = re.compile(
    r"((?:127\.0\.0\.1|0\.0\.0\.0|localhost|\[::1?\]):|\bport[ =:]+)(\d{5})\b", re.I
)
_FIRST_FREE_PORT = 32_768
"""From here on the system gives them out; those below are chosen, and mean something."""
_COMMIT = r"(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}\b"
_COMMITS = re.compile(
    r"(\[[\w./-]+(?: \(root-commit\))? |^commit |\bHEAD (?:is now|detached) at |^Merge: |\(was "
    r"|^Updating |^Dropped refs/stash@\{\d+\} \(|\bon [\w./-]+: |^[*+ ] [\w./-]+ +|-g)"
    rf"{_COMMIT}(?:( |\.\.){_COMMIT})?"
    rf"|^([*|/\\ ]*\^?){_COMMIT}(?:(\.\.){_COMMIT})?(?= |$)",
    re.M,
)
"""In what git says, not in the changes that it shows: `index` there names contents of files."""
_LISTED = re.compile(
    r"^([bcdlps-])([rwxsStT-]{9}[.+@]?) +\d+ +\S+ +\S+ +([\d.,]+[KMGT]?) "
    r"+[A-Z]\w\w +\d+ +(?:\d\d:\d\d|\d{4}) (.*)$",
    re.M,
)
_TOTAL = re.compile(r"^total \S+\n(?=[bcdlps-][rwxsStT-]{9})", re.M)
_MASKED = re.compile(r"\n?\[\d+ secrets? shown here as \[redacted\]: [^\n\]]*\]")
_END_OF_PATH = re.compile(r"[\s'\":=]")
_LONGEST_PATH = 4096
_DATES = re.compile(volatile.DATES)
_SECONDS = re.compile(volatile.SECONDS)
_OTHERS = (
    ("time", re.compile(volatile.CLOCKS)),
    ("time", re.compile(volatile.DURATIONS)),
    ("address", re.compile(volatile.ADDRESSES)),
    ("pid", re.compile(volatile.PIDS)),
    ("id", re.compile(volatile.IDS)),
    ("temporary", re.compile(volatile.TEMPORARY)),
)
_NEAR = timedelta(days=2)

Patterns = Sequence[re.Pattern[str]]


class Normaliser:
    """Of one run. `places` are names of folders and files in that run with what both call them,
    `session` is the id of both, `own` the patterns of the person, `now` when it took
    place: of dates only those around it differ by themselves, a birthday does not. `lent` are
    paths that one run has as folders and the other as links."""

    def __init__(
        self,
        places: Sequence[tuple[str, str]],
        session: str,
        own: Patterns,
        now: datetime,
        lent: Collection[str] = (),
    ) -> None:
        longest_first = sorted(places, key=lambda place: -len(place[0]))
        self._places = [(_whole(here), name) for here, name in longest_first]
        self._session = f"/sessions/{session}"
        self._own = own
        self._now = now
        self._lent = {".", "..", *(path.rpartition("/")[2] for path in lent)}

    def of_file(self, text: str) -> str:
        """What a file has, or the name of one: only places and dates of the run."""
        for pattern, name in self._places:
            text = name.join(pattern.split(text))
        text = _MASKED.sub("", self._without_home(text))
        for pattern in self._own:
            text = pattern.sub("<yours>", text)
        return _SECONDS.sub(self._unless_far(_moment), _DATES.sub(self._unless_far(_day), text))

    def of_output(self, text: str, *, of_git: bool = False) -> str:
        """What a program put out."""
        text = _PORTS.sub(_port, self.of_file(text))
        text = _LISTED.sub(self._listed, _TOTAL.sub("total <size>\n", text))
        if of_git:
            text = _COMMITS.sub(_commit, text)
        for name, pattern in _OTHERS:
            text = pattern.sub(f"<{name}>", text)
        return text

    def _without_home(self, text: str) -> str:
        """The folder of the session, wherever that is, as what it is."""
        first, *rest = text.split(self._session)
        pieces = [first]
        for piece in rest:
            before = pieces.pop()
            place = len(_END_OF_PATH.split(before[-_LONGEST_PATH:])[-1])
            pieces += [before[: len(before) - place], "<session>", piece]
        # A layer of the sandbox that can't show it as /tmp names it as it is.
        return "".join(pieces).replace("<session>/tmp", "/tmp")

    def _listed(self, match: re.Match[str]) -> str:
        """A line of `ls -l`. Owners and times are no part of a copy, sizes of folders and how often
        they are linked are up to the file system, and around the copy is another folder."""
        kind, mode, size, name = match.groups()
        if (bare := name.partition(" -> ")[0]) in self._lent:
            return bare
        return f"{kind}{mode} {'' if kind == 'd' else f'{size} '}{name}"

    def _unless_far(
        self, moment: Callable[[str], datetime | None]
    ) -> Callable[[re.Match[str]], str]:
        def replaced(match: re.Match[str]) -> str:
            told = moment(match[0])
            near = told is not None and abs(told - self._now) < _NEAR
            return "<time>" if near else match[0]

        return replaced


def _whole(path: str) -> re.Pattern[str]:
    """Match the path, but not one that only begins like it."""
    return re.compile(rf"{re.escape(path)}(?![\w-]|\.\w)")


def _day(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(f"{text[:10]}T12:00:00+00:00")
    except ValueError:
        return None


def _moment(text: str) -> datetime | None:
    seconds = float(text)
    return datetime.fromisoformat("1970-01-01T00:00:00+00:00") + timedelta(
        seconds=seconds / 1000 if seconds > 1e12 else seconds
    )


def _commit(match: re.Match[str]) -> str:
    before = match[1] or match[3] or ""
    between = match[2] or match[4]
    return f"{before}<commit>{between}<commit>" if between else f"{before}<commit>"


def _port(match: re.Match[str]) -> str:
    return f"{match[1]}<port>" if int(match[2]) >= _FIRST_FREE_PORT else match[0]
