"""Checks that tree-sitter's tree of a script has the same words that a plain tokenizer finds."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from agentcli.security.commands.shell_words import Token

if TYPE_CHECKING:
    from tree_sitter import Node

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
