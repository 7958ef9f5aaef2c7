"""Recognise commands that run tests, by the table in runners.toml, which explains its fields."""

from __future__ import annotations

import functools
import os.path
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from agentcli.security.commands.script import Words
from agentcli.security.commands.wrappers import Options, after_options

_NEVER = r"(?!)"
_END_CHARS = 10_000
_LINE_CHARS = 300
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*")


@dataclass(frozen=True)
class Runner:
    """A row of the table. `calls` maps the first word of its commands to the words that follow.
    Patterns are compiled on use, as most are never needed."""

    name: str
    calls: Mapping[str, tuple[tuple[str, ...], ...]]
    target: str = ""
    valued: frozenset[str] = frozenset()
    dry: str = _NEVER
    narrows: str = _NEVER
    files: bool = False
    suffixes: tuple[str, ...] = ("",)
    none: frozenset[int] = frozenset()
    passed: str = _NEVER
    failed: str = _NEVER
    untested: str = _NEVER

    def printed(self, what: Literal["passed", "failed", "untested"], output: str) -> bool:
        """Whether the end of the output has such a line. Only the beginning of each line is
        searched: tests may print anything, and no expression may take long."""
        pattern = re.compile(getattr(self, what))
        lines = output[-_END_CHARS:].splitlines()
        return any(pattern.search(line[:_LINE_CHARS]) for line in lines)


@dataclass(frozen=True)
class RunnerCall:
    """A call of a runner. `operands` are the words that aren't options; one is None if it is only
    known at run time. `narrowed`: it selects some of the tests. `folder` is where it runs, relative
    to where its script began; None if that isn't known."""

    runner: Runner
    operands: Words = ()
    narrowed: bool = False
    folder: str | None = ""

    def is_as_wide_as(self, other: RunnerCall) -> bool:
        """Whether it runs all tests that `other` runs, as far as words tell."""
        if self.runner.name != other.runner.name or self.narrowed > other.narrowed:
            return False
        return set(self.operands) <= set(other.operands)


@dataclass(frozen=True)
class _Table:
    runners: Mapping[str, Sequence[Runner]]
    """By the first word of their commands."""
    launchers: Sequence[tuple[tuple[str, ...], Options]]
    """Those with the most words come first."""
    files: re.Pattern[str]
    scripts: re.Pattern[str]


def may_test(text: str) -> bool:
    """Whether a script may run tests. This is a cheap check before parsing it."""
    return "test" in text or not _table().runners.keys().isdisjoint(_NAME.findall(text))


_NAME = re.compile(r"[\w.+-]+")


def is_test_file(path: str) -> bool:
    """Whether the file is named as files of tests are."""
    return bool(_table().files.fullmatch(path.rpartition("/")[2]))


def call_of(words: Words, folder: str | None) -> RunnerCall | None:
    """Return the runner call in a command that has no shells and wrappers around it; None if it
    runs no tests."""
    for inner in _launched(words):
        if (found := call_of(inner, folder)) is not None:
            return found
    if not words or words[0] is None:
        return None
    name = _name(words[0])
    for runner in _table().runners.get(name, ()):
        for call in runner.calls[name]:
            if (rest := _after(words[1:], call, runner)) is not None:
                return _called(runner, rest, folder)
    return _script(words, folder)


def may_run(call: RunnerCall, folder: str, file: str) -> bool:
    """Whether a call in `folder` may run the tests in `file`; both paths are absolute. True if that
    isn't known."""
    if not file.endswith(call.runner.suffixes):
        return False
    unknown = call.folder is None or call.narrowed or None in call.operands
    if unknown or not call.runner.files:
        return True
    at = os.path.normpath(Path(folder) / (call.folder or "."))
    operands = [word for word in call.operands if word is not None]
    return any(_names(word, at, file) for word in operands) if operands else is_below(file, at)


def places_of(call: RunnerCall, folder: str) -> list[str]:
    """Return the places where a call in `folder` looks for tests; none if that isn't known."""
    if call.folder is None or None in call.operands:
        return []
    at = os.path.normpath(Path(folder) / call.folder)
    operands = call.operands if call.runner.files else ()
    return [os.path.normpath(Path(at) / word) for word in operands if word] or [at]


def is_below(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or in it."""
    return f"{path}/".startswith(folder.rstrip("/") + "/")


def _names(word: str, folder: str, file: str) -> bool:
    """Whether an operand may select `file`: by its path, a folder above it, a module name, or a
    part of its name."""
    operand = re.sub(r"::.*|(?:^|/)\.\.\.$", "", word)
    given = os.path.normpath(Path(folder) / operand)
    module = os.path.normpath(Path(folder) / operand.replace(".", "/"))
    above = is_below(file, given) or is_below(file, module)
    return above or is_below(module, file.rpartition(".")[0]) or operand in file


def _launched(words: Words) -> Iterator[Words]:
    """Yield the command that a launcher such as `uv run` would run."""
    if not words or words[0] is None:
        return
    bare = (_name(words[0]), *words[1:])
    for launcher, options in _table().launchers:
        if bare[: len(launcher)] == launcher:
            given = words[len(launcher) - 1 :]
            at = after_options(given, options)
            if at is None:
                at = next((n for n, w in enumerate(given) if n and w and w[0] != "-"), len(given))
            if given[at:]:
                yield given[at:]


def _name(word: str) -> str:
    name = os.path.split(word)[1]
    return "python" if _PYTHON.fullmatch(name) else name


def _after(words: Words, call: Sequence[str], runner: Runner) -> Words | None:
    """Return the words without those of `call`, between which options may stand; None if `call`
    isn't there."""
    before: list[str | None] = []
    rest = list(words)
    for wanted in call:
        while rest and rest[0] != wanted and (rest[0] or "").startswith(("-", "+")):
            option = rest.pop(0)
            before.append(option)
            if option in runner.valued and rest:
                before.append(rest.pop(0))
        if not rest or rest[0] != wanted:
            return None
        rest.pop(0)
    return (*before, *rest)


def _called(runner: Runner, words: Words, folder: str | None) -> RunnerCall | None:
    """Return the call of `runner` with these words; None if they make it run nothing."""
    options: list[str] = []
    operands: list[str | None] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            operands += [w for w in rest if w is None or not w.startswith("-")]
        elif word is None or not word.startswith("-") or word == "-":
            operands.append(word)
        else:
            options.append(word)
            if word in runner.valued:
                next(rest, None)
    known = [word for word in (*options, *operands) if word is not None]
    if any(re.fullmatch(runner.dry, word) for word in known):
        return None
    if runner.target and not any(re.fullmatch(runner.target, word or "") for word in operands):
        return None
    narrowed = any(re.fullmatch(runner.narrows, option) for option in options)
    return RunnerCall(runner, tuple(operands), narrowed, folder)


def _script(words: Words, folder: str | None) -> RunnerCall | None:
    """Return the call if a test file, or a script named after tests, is run directly or by an
    interpreter."""
    first = words[0] or ""
    table = _table()
    name = _name(first)
    if table.files.fullmatch(name):
        return RunnerCall(_FILES, (first,), False, folder)
    if ("/" in first or "." in name) and table.scripts.fullmatch(name):
        return RunnerCall(_SCRIPT, (first,), False, folder)
    if name in _INTERPRETERS and (file := next((w for w in words[1:] if w and w[0] != "-"), "")):
        last = file.rpartition("/")[2]
        if table.files.fullmatch(last):
            return RunnerCall(_FILES, (file,), False, folder)
        if table.scripts.fullmatch(last) and "." in last:
            return RunnerCall(_SCRIPT, (file,), False, folder)
    return None


_INTERPRETERS = frozenset(("bash", "sh", "node", "perl", "ts-node", "tsx", "elixir", "deno"))
_FILES = Runner("test file", {}, files=True)
_SCRIPT = Runner("test script", {})


@functools.cache
def _table() -> _Table:
    """Return the table. Reading takes 2 ms, so it is read on first use."""
    data = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    by_word: dict[str, list[Runner]] = {}
    for row in data["runner"]:
        runner = _runner(row)
        for word in runner.calls:
            by_word.setdefault(word, []).append(runner)
    launchers = [
        (tuple(row.pop("words").split()), Options(**row)) for row in map(dict, data["launcher"])
    ]
    launchers.sort(key=lambda launcher: -len(launcher[0]))
    files = re.compile(data["test_files"].replace("\n", ""))
    return _Table(by_word, launchers, files, re.compile(data["test_scripts"]))


def _runner(row: dict[str, Any]) -> Runner:
    calls: dict[str, list[tuple[str, ...]]] = {}
    for command in row["commands"]:
        first, *more = command.split()
        calls.setdefault(first, []).append(tuple(more))
    names = ("target", "dry", "narrows", "passed", "failed", "untested")
    patterns = {name: row[name] for name in names if name in row}
    return Runner(
        name=row["name"],
        calls={word: tuple(sorted(more, key=len, reverse=True)) for word, more in calls.items()},
        valued=frozenset(row.get("valued", "").split()),
        files=row.get("files", False),
        suffixes=tuple(row["suffixes"].split()) if "suffixes" in row else ("",),
        none=frozenset(row.get("none", ())),
        **patterns,
    )
