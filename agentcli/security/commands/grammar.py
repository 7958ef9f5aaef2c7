"""Runs the bash grammar, a C library, only on input that it can handle.

A fault in it would end this process, and nothing else runs while it does. So it only gets ASCII (it
looks characters up in a table that has no room for others), no deeply nested text, and limited
time.
"""

from __future__ import annotations

import functools
import re
import threading
from itertools import accumulate
from typing import TYPE_CHECKING

from agentcli.security.commands.time_limit import TimeLimit

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_MOST_CHARS = 100_000
_MOST_PIPES = 2_000
"""With this many, it does not check the time limit for 0.1 s at the end; each further one adds to
that."""
_DEEPEST = 500
"""Deepest nesting of brackets, counting quoted ones; our walk of the tree gives up at about 300."""
_MOST_THREADS = 16
"""Number of threads whose parsers are kept."""
_BRACKET = re.compile(r"[()\[\]{}]")
_NESTS = {"(": 1, "[": 1, "{": 1}
_STAND_INS = "".join(map(chr, (*range(1, 9), *range(14, 32))))


class Unreadable(Exception):
    """Says why the grammar did not parse a script, in words that fit after "as"."""


def read(text: str, source: bytes, time_limit: TimeLimit) -> Node:
    """Return the tree of `text`, which is `source` in UTF-8. Its positions are bytes of `source`,
    even beyond ASCII. Parsing can be interrupted. Raises Unreadable."""
    if len(text) > _MOST_CHARS or text.count("|") > _MOST_PIPES:
        raise Unreadable("it is too long to judge")
    if "\0" in text:
        raise Unreadable("it contains the character NUL")
    steps = (_NESTS.get(bracket, -1) for bracket in _BRACKET.findall(text))
    if max(accumulate(steps), default=0) > _DEEPEST:
        raise Unreadable("it is nested too deeply")
    data = memoryview(_in_ascii(text, source))
    parser = _parser(threading.get_ident())
    try:
        tree = parser.parse(
            lambda start, _: data[start:],
            progress_callback=lambda _, __: time_limit.is_over(),
        )
    except ValueError as error:
        raise Unreadable("it would take too long to judge") from error
    finally:
        # Otherwise the next text would be parsed as the rest of one that was given up.
        parser.reset()
    root = tree.root_node
    if "<<" in text and not text.isascii():
        _check_last_lines(root, source)
    return root


def _check_last_lines(root: Node, source: bytes) -> None:
    """Check the last lines of here-documents. If two of them differed only in characters beyond
    ASCII, the grammar would mistake one for the other and hide what follows. Raises Unreadable."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type == "heredoc_start" and not source[node.start_byte : node.end_byte].isascii():
            raise Unreadable("the end marker of its here-document is not ASCII")
        waiting += node.children


@functools.lru_cache(_MOST_THREADS)
def _parser(thread: int) -> Parser:
    """Return a thread's own parser: others run while it reads, and it holds what it read so far."""
    from tree_sitter import Language, Parser
    from tree_sitter_bash import language

    return Parser(Language(language()))


def _in_ascii(text: str, source: bytes) -> bytes:
    """Return `source` with each byte beyond ASCII replaced, at the same length. The replacement is
    always part of a word, both for bash and for the grammar, and does not occur in the text, so no
    two lines become equal."""
    if text.isascii():
        return source
    stand_in = next((sign for sign in _STAND_INS if sign not in text), None)
    if stand_in is None:
        raise Unreadable("it consists of control characters")
    return bytes(source.translate(_beyond_ascii_to(stand_in)))


@functools.cache
def _beyond_ascii_to(sign: str) -> bytes:
    return bytes(code if code < 0x80 else ord(sign) for code in range(256))
