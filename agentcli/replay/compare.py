"""Compare two runs of a session: results of actions, and files, both normalised.

What differs between runs anyway (times, places, process ids) is replaced by a name for it;
docs/records.md lists all of it.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from agentcli.events import Action, Observation, texts
from agentcli.events.actions import CmdRunAction, GlobAction, IPythonRunCellAction
from agentcli.events.base import COMMON_FIELDS

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
_DATES = re.compile(texts.DATES)
_SECONDS = re.compile(texts.SECONDS)
_OTHERS = (
    ("time", re.compile(texts.CLOCKS)),
    ("time", re.compile(texts.DURATIONS)),
    ("address", re.compile(texts.ADDRESSES)),
    ("pid", re.compile(texts.PIDS)),
    ("id", re.compile(texts.IDS)),
    ("temporary", re.compile(texts.TEMPORARY)),
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
            at = moment(match[0])
            near = at is not None and abs(at - self._now) < _NEAR
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


_INCIDENTAL = frozenset(
    (
        *("content", "command", "code", "path", "digest", "old_content", "pid", "duration_s"),
        *("full_output_path", "exports_layer", "job_id"),
    )
)
"""Fields of an observation that are not results, or are compared in another way."""
_CONTEXT = 2


@dataclass(frozen=True)
class Difference:
    """The first difference between two runs. `event_id` is that of the observation; `action` says
    in words what was done."""

    event_id: int
    action: str
    diff: str
    note: str = ""


def difference(
    action: Action,
    recorded: Observation,
    now: Observation,
    before: Normaliser,
    after: Normaliser,
) -> Difference | None:
    """Return how `now` differs from what was `recorded`, None if it doesn't. Each is normalised by
    the normaliser of its own run."""
    # How much of the output is there depends on the machine's speed.
    if isinstance(action, CmdRunAction) and (
        action.background or (action.job is not None and action.command.strip() == "stop")
    ):
        old, new = [recorded.kind], [now.kind]
    else:
        old, new = _described(action, recorded, before), _described(action, now, after)
    if old == new:
        return None
    note = "the same lines, in another order" if sorted(old) == sorted(new) else ""
    return Difference(recorded.id, action.message, unified_diff(old, new), note)


def unified_diff(old: Sequence[str], new: Sequence[str]) -> str:
    """Return a diff of lines, without line ends."""
    return "\n".join(difflib.unified_diff(old, new, "recorded", "now", lineterm="", n=_CONTEXT))


def _described(action: Action, observation: Observation, normaliser: Normaliser) -> list[str]:
    """Return the result of an action as lines: facts, then the content."""
    clean: Callable[[str], str] = normaliser.of_file
    if isinstance(action, CmdRunAction | IPythonRunCellAction):
        of_git = isinstance(action, CmdRunAction) and "git" in action.command

        def clean(text: str) -> str:
            return normaliser.of_output(text, of_git=of_git)

    values = observation.model_dump(mode="json", exclude_defaults=True, exclude=set(COMMON_FIELDS))
    facts = [f"result: {observation.kind}", *(clean(fact) for fact in _facts(values))]
    lines = clean(observation.content).splitlines()
    if isinstance(action, GlobAction):
        # The newest file comes first, and in a copy every file is new.
        lines.sort()
    return [*facts, *lines]


def _facts(values: dict[str, Any], above: str = "") -> Iterator[str]:
    """Yield a line for each field; `above` is the path of names before it."""
    for name, value in values.items():
        if name in _INCIDENTAL:
            continue
        if name == "image_urls":
            value = [hashlib.sha256(url.encode()).hexdigest()[:16] for url in value]
        if isinstance(value, dict):
            yield from _facts(value, f"{above}{name}.")
        elif isinstance(value, str) and "\n" in value:
            yield f"{above}{name}:"
            yield from value.splitlines()
        else:
            shown = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
            yield f"{above}{name}: {shown}"


def differing_parts(
    diff: str, before: Normaliser, after: Normaliser, left_out: Collection[str] = ()
) -> str:
    """Return the files of a unified diff that differ even after normalisation. `before` normalises
    the removed lines, `after` the added ones. Files in `left_out` are ignored."""
    heads = tuple(f"diff --git a/{path} b/" for path in left_out)
    parts = (part for part in _parts(diff) if not part.startswith(heads))
    return "\n".join(part for part in parts if not _is_same(part, before, after))


def _parts(diff: str) -> Iterator[str]:
    """Yield the part of the diff about each file."""
    part: list[str] = []
    for line in diff.splitlines():
        if line.startswith("diff --git ") and part:
            yield "\n".join(part)
            part = []
        part.append(line)
    if part:
        yield "\n".join(part)


def _is_same(part: str, before: Normaliser, after: Normaliser) -> bool:
    """Whether the part only differs in content that is the same once it is normalised."""
    head, hunks, body = part.partition("\n@@")
    only_content = hunks and not any(
        line.startswith(("old mode", "new mode", "new file", "deleted file", "rename"))
        for line in head.splitlines()
    )
    if not only_content:
        return False
    lines = body.splitlines()
    old = [before.of_output(line[1:]) for line in lines if line.startswith("-")]
    new = [after.of_output(line[1:]) for line in lines if line.startswith("+")]
    return old == new
