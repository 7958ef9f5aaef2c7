"""Make texts of two runs of the same work comparable: replace what differs between runs anyway
(times, places, process ids) by a name for it. docs/records.md lists all of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta

from agentcli.events import volatile

_PORTS = re.compile(
    r"((?:127\.0\.0\.1|0\.0\.0\.0|localhost|\[::1?\]):|\bport[ =:]+)(\d{5})\b", re.I
)
_FIRST_FREE_PORT = 32_768
"""The system assigns ports from here on; lower ones were chosen and mean something."""
_COMMIT = r"(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}\b"
_COMMITS = re.compile(
    r"(\[[\w./-]+(?: \(root-commit\))? |^commit |\bHEAD (?:is now|detached) at |^Merge: |\(was "
    r"|^Updating |^Dropped refs/stash@\{\d+\} \(|\bon [\w./-]+: |^[*+ ] [\w./-]+ +|-g)"
    rf"{_COMMIT}(?:( |\.\.){_COMMIT})?"
    rf"|^([*|/\\ ]*\^?){_COMMIT}(?:(\.\.){_COMMIT})?(?= |$)",
    re.M,
)
"""Commit ids in git's messages and lists. The `index` lines of a diff don't match: their ids are of
file contents, which must be the same."""
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
    """Normalises texts of one run. `places` are pairs of a path in that run and the path that both
    runs use instead; `session` is the id of the session, `own` has the user's patterns. `now` is
    the time of the run: only dates close to it are replaced, a birthday is not. `lent` are paths
    that are folders in one run and links in the other."""

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
        """Normalise the content or name of a file: only places and dates of the run."""
        for pattern, name in self._places:
            text = name.join(pattern.split(text))
        text = _MASKED.sub("", self._without_home(text))
        for pattern in self._own:
            text = pattern.sub("<yours>", text)
        return _SECONDS.sub(self._unless_far(_moment), _DATES.sub(self._unless_far(_day), text))

    def of_output(self, text: str, *, of_git: bool = False) -> str:
        """Normalise the output of a program; `of_git`: of a command with git in it."""
        text = _PORTS.sub(_port, self.of_file(text))
        text = _LISTED.sub(self._listed, _TOTAL.sub("total <size>\n", text))
        if of_git:
            text = _COMMITS.sub(_commit, text)
        for name, pattern in _OTHERS:
            text = pattern.sub(f"<{name}>", text)
        return text

    def _without_home(self, text: str) -> str:
        """Replace the path of the session's folder, wherever it lies, by `<session>`."""
        first, *rest = text.split(self._session)
        pieces = [first]
        for piece in rest:
            before = pieces.pop()
            place = len(_END_OF_PATH.split(before[-_LONGEST_PATH:])[-1])
            pieces += [before[: len(before) - place], "<session>", piece]
        # A sandbox layer that can't show this folder as /tmp has its real path in outputs.
        return "".join(pieces).replace("<session>/tmp", "/tmp")

    def _listed(self, match: re.Match[str]) -> str:
        """Normalise a line of `ls -l`. A copy doesn't keep owners and times; link counts and sizes
        of folders depend on the file system."""
        kind, mode, size, name = match.groups()
        if (bare := name.partition(" -> ")[0]) in self._lent:
            return bare
        return f"{kind}{mode} {'' if kind == 'd' else f'{size} '}{name}"

    def _unless_far(
        self, moment: Callable[[str], datetime | None]
    ) -> Callable[[re.Match[str]], str]:
        """Return a replacement that keeps every `moment` far from the run's."""

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
