"""The grammar of bash, a C library, kept from what it can't bear.

A fault in it would end the process, and while it runs nothing else does: so it is only given ASCII
(it looks characters up in a table that has no room for others), nothing that is deeply nested, and
so much time.
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
"""At the end of so many it does not look up for 0.1 s, and ever longer for each further one."""
_DEEPEST = 500
"""Brackets within brackets, quoted ones too: what reads the tree gives up at some 300."""
_MOST_THREADS = 16
"""Whose parsers are kept."""
_BRACKET = re.compile(r"[()\[\]{}]")
_NESTS = {"(": 1, "[": 1, "{": 1}
_STAND_INS = "".join(map(chr, (*range(1, 9), *range(14, 32))))


class Unreadable(Exception):
    """Why a script is not given to the grammar, or why it gave up, as words after "as"."""


def read(text: str, source: bytes, time_limit: TimeLimit) -> Node:
    """The tree of `text`, which is `source` in UTF-8; its places are bytes of `source`, whatever
    characters these are. An interrupt acts while it is made. Raises Unreadable."""
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
        # Else the next text would be read as the rest of one that was given up.
        parser.reset()
    root = tree.root_node
    if "<<" in text and not text.isascii():
        _check_last_lines(root, source)
    return root


def _check_last_lines(root: Node, source: bytes) -> None:
    """Two last lines of here-documents that differ in other letters only would be the same to the
    grammar, and hide what follows. Raises Unreadable where there are any."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type == "heredoc_start" and not source[node.start_byte : node.end_byte].isascii():
            raise Unreadable("its here-document ends with other letters than those of ASCII")
        waiting += node.children


@functools.lru_cache(_MOST_THREADS)
def _parser(thread: int) -> Parser:
    """One for each thread: others run while it reads, and it holds what it has read so far."""
    from tree_sitter import Language, Parser
    from tree_sitter_bash import language

    return Parser(Language(language()))


def _in_ascii(text: str, source: bytes) -> bytes:
    """As long as `source`, each character beyond ASCII replaced by one that is part of words and
    nothing else, neither to bash nor to the grammar, and that the text itself does not have: so no
    two lines become the same."""
    if text.isascii():
        return source
    stand_in = next((sign for sign in _STAND_INS if sign not in text), None)
    if stand_in is None:
        raise Unreadable("it consists of control characters")
    return bytes(source.translate(_beyond_ascii_to(stand_in)))


@functools.cache
def _beyond_ascii_to(sign: str) -> bytes:
    return bytes(code if code < 0x80 else ord(sign) for code in range(256))
