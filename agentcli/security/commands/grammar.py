"""Runs the bash grammar, a C library, only on input that it can handle, and checks its tree against
a plain tokenizer.

A fault in it would end this process, and nothing else runs while it does. So it only gets ASCII (it
looks characters up in a table that has no room for others), no deeply nested text, and limited
time."""

from __future__ import annotations

import functools
import re
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from agentcli.security.commands.shell_words import Token

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


class TimeLimit:
    """A limit in seconds of this thread's processor time from creation on. Other threads and
    processes don't count, so that a busy machine changes no judgement."""

    def __init__(self, seconds: float) -> None:
        self._end = time.thread_time() + seconds

    def is_over(self) -> bool:
        return time.thread_time() > self._end


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
    return source.translate(bytes(c if c < 0x80 else ord(stand_in) for c in range(256)))


_WORDS = frozenset(
    """word string raw_string ansi_c_string translated_string concatenation number expansion
    simple_expansion command_substitution process_substitution arithmetic_expansion
    brace_expression extglob_pattern regex test_operator variable_name special_variable_name
    variable_assignment file_descriptor array subscript""".split()  # noqa: SIM905
)


def agree(text: str, data: bytes, root: Node, found: list[Token]) -> bool:
    """Return whether the tree of `text`, which is `data` in UTF-8, has the same words and operators
    as the tokenizer `found`, grouped in the same way."""
    if not text.isascii():
        offsets = [0]
        for character in text:
            offsets.append(offsets[-1] + len(character.encode("utf-8", "surrogatepass")))
        found = [Token(offsets[t.start], offsets[t.end], t.separates) for t in found]
    ours = [t for t in found if not (t.separates and data[t.start : t.end] == b"\n")]
    spans = [span for span in leaf_spans(root) if data[slice(*span)].strip()]
    if spans != [(t.start, t.end) for t in ours]:
        return False
    commands = list(_command_spans(root))
    separators = sorted(t.start for t in found if t.separates)
    merged = any(
        bisect_right(separators, start) < bisect_left(separators, end) for start, end in commands
    )
    starts = {t.start for t in found}
    # A command that begins right after another one, with only blanks between, is a part of it.
    split = any(not data[end:start].strip(b" \t") for (_, end), (start, _) in pairwise(commands))
    return not merged and not split and all(start in starts for start, _ in commands)


def leaf_spans(node: Node) -> Iterator[tuple[int, int]]:
    """Yield the byte positions of the words and operators of `node`, without comments."""
    if node.type == "comment":
        return
    if node.child_count == 0 or node.type in _WORDS:
        yield node.start_byte, node.end_byte
        return
    for child in node.children:
        yield from leaf_spans(child)


def _command_spans(node: Node) -> Iterator[tuple[int, int]]:
    if node.type in ("command", "declaration_command", "unset_command", "test_command"):
        yield node.start_byte, node.end_byte
        return
    for child in node.children:
        yield from _command_spans(child)
