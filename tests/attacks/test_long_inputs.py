"""What a model can write in one call that made a run deaf, to interrupts too, or take all memory:
each call is answered, and the run goes on."""

from __future__ import annotations

import pytest

from tests.attacks.raids import bash
from tests.server import Call

LONG = {
    "arrays in a command": bash("a=(" * 33_000),
    "redirects in a command": bash(">" * 99_000),
    "an emoji after a brace": bash("echo {\U0001f600"),
    "starts of tokens": Call("write", {"path": "a.txt", "content": "eyJ" * 300_000}),
    "starts of keys": Call("write", {"path": "a.txt", "content": "sk-" * 300_000}),
    "empty lines of Python": Call("python", {"code": "\n" * 60_000 + "print(6 * 7)"}),
    "a key of many parts": Call("write", {"path": "a.toml", "content": "a." * 30_000 + "a=1"}),
    "a table of many parts": Call(
        "write", {"path": "a.toml", "content": "[" + " a .'b'." * 15_000 + "a]"}
    ),
}


@pytest.mark.parametrize("what", LONG)
def test_a_long_input_is_answered(arena, what):
    where = arena("none", "self")
    calls = [LONG[what], Call("glob", {"pattern": "*.md"})]
    run = where.does(calls, "--no-sandbox", "--yolo")
    assert run.exit_code == 0, run.stderr
    assert len(run.told) == 2
