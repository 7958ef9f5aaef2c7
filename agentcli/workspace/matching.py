"""Finds lines that match a regular expression, in a process that can be killed.

A pattern such as `(a+)+$` may take practically forever, and Python's `re` can neither be
interrupted in a thread nor given a time limit.
"""

from __future__ import annotations

import json
import subprocess
import sys
from threading import Timer

_PROGRAM = r"""
import json, re, sys

pattern, flags, across = json.loads(sys.stdin.buffer.readline())
regex = re.compile(pattern, flags)
# Text without a match has no line with one either, but for patterns that look around.
quick = None if re.search(r"\(\?|\\[AZBz]", pattern) else regex

def matching(text):
    if quick and not quick.search(text):
        return []
    lines = text.split("\n")
    lines = lines if lines[-1] else lines[:-1]
    if not across:
        return [number for number, line in enumerate(lines) if regex.search(line)]
    text = "\n".join(lines)
    numbers = set()
    line = counted = 0
    for match in regex.finditer(text):
        line, counted = line + text.count("\n", counted, match.start()), match.start()
        last = line + match[0].removesuffix("\n").count("\n")
        numbers.update(range(line, last + 1))
    return sorted(numbers)

while size := sys.stdin.buffer.readline():
    found = matching(sys.stdin.buffer.read(int(size)).decode("utf-8", "surrogatepass"))
    sys.stdout.buffer.write(json.dumps(found).encode() + b"\n")
    sys.stdout.buffer.flush()
"""


class Matcher:
    """Searches texts one by one for a valid `pattern`, for `limit_s` seconds in total. `across`
    lets a match span lines. The process starts with the first text."""

    def __init__(self, pattern: str, flags: int, limit_s: float, *, across: bool) -> None:
        self._setup = json.dumps([pattern, flags, across]).encode() + b"\n"
        self._limit_s = limit_s
        self._process: subprocess.Popen[bytes] | None = None
        self._timer: Timer | None = None

    def __enter__(self) -> Matcher:
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def lines(self, text: str) -> set[int] | None:
        """Return the numbers, from 0, of the matching lines; None if the time is up."""
        process = self._process or self._start()
        asked, answers = process.stdin, process.stdout
        assert asked is not None
        assert answers is not None
        data = text.encode("utf-8", "surrogatepass")
        try:
            asked.write(b"%d\n" % len(data) + data)
            asked.flush()
        except BrokenPipeError:
            return None
        answer = answers.readline()
        return set(json.loads(answer)) if answer else None

    def _start(self) -> subprocess.Popen[bytes]:
        # Isolated, so that neither the workspace nor the environment can inject a module.
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
        )
        self._process = process
        self._timer = Timer(self._limit_s, process.kill)
        self._timer.daemon = True
        self._timer.start()
        assert process.stdin is not None
        process.stdin.write(self._setup)
        return process
