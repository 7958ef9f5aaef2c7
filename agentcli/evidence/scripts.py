"""Find the tests that a shell script runs, and what its exit code says about each."""

from __future__ import annotations

import functools
import os.path
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agentcli.evidence import Outcome
from agentcli.evidence.runners import RunnerCall, call_of, may_test
from agentcli.security.commands.grammar import TimeLimit, Unreadable, read
from agentcli.security.commands.known_commands import is_read_only
from agentcli.security.commands.script import Words
from agentcli.security.commands.shell_words import decode
from agentcli.security.commands.wrappers import command_name, unwrap

if TYPE_CHECKING:
    from tree_sitter import Node


_READING_S = 1.0
_MAX_DEPTH = 8
_MOST_COMMANDS = 500
_CHANGE_NOTHING = frozenset(
    """cd pushd popd export set unset source . : ulimit umask alias shopt sleep clear echo printf
    true date pwd tail head cat less more wc cut tr""".split()  # noqa: SIM905
)
"""Commands that change no files whatever their arguments; redirections are judged separately."""
_NEVER_FAIL = _CHANGE_NOTHING | frozenset(
    ("mkdir", "tee", "sort", "uniq", "sed", "awk", "nl", "fold")
)
"""Commands that practically never fail when they stand beside tests."""


@dataclass(frozen=True)
class ScriptTests:
    """The tests in a script, in the order of its text; the other fields have their numbers.
    `if_zero`: they passed for certain if the script ends with 0; `if_failed`: they failed if it
    ends with another code; `changed_after`: something that may change files ran after them."""

    tests: tuple[RunnerCall, ...] = ()
    if_zero: frozenset[int] = frozenset()
    if_failed: frozenset[int] = frozenset()
    changed_after: frozenset[int] = frozenset()


@functools.lru_cache(maxsize=64)
def tests_in(text: str) -> ScriptTests:
    """Return the tests in a script; none if it can't be parsed. Never raises."""
    if not may_test(text):
        return ScriptTests()
    reader = _Reader()
    try:
        whole = reader.script(text)
    except (Unreadable, RecursionError):
        return ScriptTests()
    changed_after = (n for n, end in enumerate(reader.ends) if end < reader.last_change)
    return ScriptTests(
        tuple(reader.tests), whole.if_zero, whole.if_failed, frozenset(changed_after)
    )


def may_change(text: str) -> bool:
    """Whether a script may change files."""
    return not is_read_only(text)


_NONE: frozenset[Any] = frozenset()


@dataclass(frozen=True)
class _Part:
    """What the exit code of a part of a script says about tests, by their number; see ScriptTests.
    `plain`: under `set -e` its failure ends the script."""

    if_zero: frozenset[int] = _NONE
    if_failed: frozenset[int] = _NONE
    may_fail: bool = True
    plain: bool = True


_UNKNOWN = _Part()


def _both(first: _Part, second: _Part) -> _Part:
    """Return the part `first && second`."""
    failed = _NONE
    if not first.may_fail:
        failed = second.if_failed
    elif not second.may_fail:
        failed = first.if_failed
    may_fail = first.may_fail or second.may_fail
    return _Part(first.if_zero | second.if_zero, failed, may_fail, plain=False)


def _either(first: _Part, second: _Part) -> _Part:
    """Return the part `first || second`."""
    may_fail = first.may_fail and second.may_fail
    return _Part(_NONE, first.if_failed | second.if_failed, may_fail, plain=False)


@dataclass
class _Reader:
    tests: list[RunnerCall] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    """For each test, the number of commands up to it."""
    count: int = 0
    last_change: int = -1
    folder: str | None = ""
    errexit: bool = False
    pipefail: bool = False
    may_have_left: frozenset[str] = _NONE
    """The kinds of code with which an `exit` may have ended the script by now: "zero", "other"."""
    depth: int = 0
    source: bytes = b""

    def script(self, text: str) -> _Part:
        """Raises Unreadable."""
        if self.depth > _MAX_DEPTH:
            raise Unreadable("its parts are nested too deeply")
        outside, self.source = self.source, text.encode("utf-8", "surrogatepass")
        self.depth += 1
        try:
            return self.sequence(read(text, self.source, TimeLimit(_READING_S)).children)
        finally:
            self.source = outside
            self.depth -= 1

    def text(self, node: Node) -> str:
        return self.source[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def part(self, node: Node) -> _Part:
        match node.type:
            case "command" | "declaration_command" | "unset_command" | "test_command":
                return self.command(node)
            case "list":
                return self.list(node)
            case "pipeline":
                return self.pipeline(node)
            case "subshell":
                return self.subshell(node)
            case "compound_statement" | "program":
                return self.sequence(node.children)
            case "redirected_statement":
                return self.redirected(node)
            case "variable_assignment" | "variable_assignments":
                self.within(node)
                return _Part(may_fail=False)
            case "function_definition":
                return _Part(may_fail=False)
        self.within(node)
        return _UNKNOWN

    def within(self, node: Node) -> None:
        """Read commands in a part whose exit code says nothing about them."""
        for child in node.named_children:
            if child.type != "comment":
                self.part(child)

    def sequence(self, nodes: Sequence[Node]) -> _Part:
        """Read statements in a row: the last decides the exit code, under `set -e` each of them."""
        whole: _Part | None = None
        for node, following in zip(nodes, [*nodes[1:], None], strict=True):
            if not node.is_named or node.type == "comment":
                continue
            stops = self.errexit and whole is not None and whole.plain
            part = self.part(node)
            if following is not None and following.type == "&":
                part = _Part(may_fail=False)
            whole = replace(_both(whole, part), plain=True) if stops and whole else part
        return whole or _Part(may_fail=False)

    def list(self, node: Node) -> _Part:
        whole: _Part | None = None
        operator = ""
        for child in node.children:
            if not child.is_named:
                operator = child.type
            elif child.type != "comment":
                part = self.part(child)
                if whole is None:
                    whole = part
                else:
                    whole = _both(whole, part) if operator == "&&" else _either(whole, part)
        return whole or _UNKNOWN

    def pipeline(self, node: Node) -> _Part:
        """Read a pipeline. Its stages run at once, so none changes files after another's tests."""
        before = self.last_change, len(self.tests)
        folder = self.folder
        parts = []
        for child in node.named_children:
            if child.type != "comment":
                parts.append(self.part(child))
                self.folder = folder
        if len(self.tests) > before[1]:
            self.last_change = before[0]
        if not parts:
            return _UNKNOWN
        if not self.pipefail:
            return replace(parts[-1], plain=True)
        zero = frozenset[int]().union(*(part.if_zero for part in parts))
        fallible = [part for part in parts if part.may_fail]
        failed = fallible[0].if_failed if len(fallible) == 1 else _NONE
        return _Part(zero, failed, bool(fallible))

    def subshell(self, node: Node) -> _Part:
        with self._apart():
            return replace(self.sequence(node.children), plain=True)

    def redirected(self, node: Node) -> _Part:
        body = node.child_by_field_name("body")
        tests = len(self.tests)
        part = self.part(body) if body is not None else _Part(may_fail=False)
        if len(self.tests) == tests and not is_read_only(self.text(node)):
            self.last_change = self.count
        for child in node.named_children:
            if child != body:
                self.within(child)
        return part

    def command(self, node: Node) -> _Part:
        words: list[str | None] = []
        for child in node.children:
            if child.type == "variable_assignment" or child.type.endswith("_redirect"):
                self.within(child)
            else:
                words.append(decode(self.text(child)).text)
                self.within(child)
        return self.call(tuple(words), self.text(node))

    def call(self, words: Words, written: str) -> _Part:
        """Read a command, and what is in the wrappers around it."""
        inside = unwrap(words) if words else None
        if inside is not None and len(inside.scripts) == 1 and not inside.commands:
            return self.nested(inside.scripts[0])
        if inside is not None and len(inside.commands) == 1 and not inside.scripts:
            return self.call(inside.commands[0], written)
        self.count += 1
        if self.count > _MOST_COMMANDS:
            raise Unreadable("it has too many parts")
        self.note(words)
        if (found := call_of(words, self.folder)) is not None:
            self.tests.append(found)
            self.ends.append(self.count)
            number = frozenset((len(self.tests) - 1,))
            zero, other = (_NONE if code in self.may_have_left else number for code in _CODES)
            return _Part(zero, other)
        name = command_name(words[0]) if words else None
        if name not in _CHANGE_NOTHING and not is_read_only(written):
            self.last_change = self.count
        return _Part(may_fail=name not in _NEVER_FAIL)

    def nested(self, script: str) -> _Part:
        """Read a script for another shell."""
        with self._apart():
            return replace(self.script(script), plain=True)

    @contextmanager
    def _apart(self) -> Iterator[None]:
        """Keep what happens in a subshell from the shell around it."""
        before = self.folder, self.errexit, self.pipefail, self.may_have_left
        yield
        self.folder, self.errexit, self.pipefail, self.may_have_left = before

    def note(self, words: Words) -> None:
        """Note builtins that change where and how the following commands run."""
        if words[:1] == ("cd",):
            self.folder = _entered(self.folder, words[1] if len(words) == 2 else None)
        elif words[:1] in (("exit",), ("return",)):
            self.may_have_left |= {"other" if _NOT_ZERO.fullmatch(words[-1] or "") else "zero"}
        elif words[:1] == ("set",):
            self.set(words[1:])

    def set(self, words: Words) -> None:
        for word, following in pairwise([*words, None]):
            if word is None or word == "--":
                return
            on = word.startswith("-")
            if re.fullmatch(r"[-+][A-Za-z]*e[A-Za-z]*", word):
                self.errexit = on
            if re.fullmatch(r"[-+][A-Za-z]*o", word):
                self.errexit = on if following == "errexit" else self.errexit
                self.pipefail = on if following == "pipefail" else self.pipefail


def _entered(folder: str | None, to: str | None) -> str | None:
    if folder is None or to is None or to.startswith(("-", "~")):
        return None
    return os.path.normpath(Path(folder) / to)


_CODES = ("zero", "other")
_NOT_ZERO = re.compile(r"0*[1-9]\d?|0*1\d\d")


_NO_SUCH_COMMAND = (126, 127)
_BEGINNING = 2_000
_PRINTED: tuple[Literal["failed", "passed"], ...] = ("failed", "passed")
"""Outcomes that a runner's summary may tell; a failure counts more."""
_NO_FOLDER = re.compile(r"^.*: (?:line \d+: )?cd: ", re.MULTILINE)


def outcome_of(
    tests: ScriptTests, number: int, exit_code: int | None, output: str
) -> tuple[Outcome, str] | None:
    """Return the outcome of the test `number` of a script that ended with `exit_code` (None: not
    known), and the reason if it is unknown. None if no test was run."""
    runner = tests.tests[number].runner
    if exit_code == 0 and number in tests.if_zero:
        if runner.printed("untested", output):
            return "unknown", "it ran no test"
        return "passed", ""
    if exit_code and number in tests.if_failed:
        if (
            exit_code in _NO_SUCH_COMMAND
            or exit_code in runner.none
            or _NO_FOLDER.search(output[:_BEGINNING])
        ):
            return None
        return "failed", ""
    for outcome in _PRINTED:
        if runner.printed(outcome, output):
            return outcome, ""
    if exit_code is None:
        return "unknown", "how it ended is not known"
    return "unknown", f"exit {exit_code} is not that of the tests alone"
