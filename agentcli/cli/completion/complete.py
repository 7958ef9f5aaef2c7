"""Say what can follow on a command line. Somebody has pressed a key and is waiting, so commands and
options come from a file that is made once, and only what the word at the cursor needs is imported.

The first line of the answer says what the others are: `words`, `joined` (words that get no space
after them), `files` or `folders`; the shell lists those two itself. A word may be followed by a tab
and its description.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from agentcli.cli.completion.tree import kept_tree
from agentcli.cli.completion.words import words_of_kind

Tree = Mapping[str, Any]
"""A command, as `make_tree.py` describes it: its `help`, and either its `commands` by name, or its
`options` by name and the kinds of its `arguments`."""
_SHELL_LISTS = ("files", "folders")
_JOINED = ("=", "/")


class Place(NamedTuple):
    """The thing to complete: a value of a `kind` or, without one, a command or option of `node`."""

    node: Tree
    current: str
    kind: str = ""
    before: str = ""
    """The part of the word that does not belong to the value: `--model=`."""


def main(arguments: list[str]) -> int:
    """Print the answer. `arguments` are the shell, the line up to the cursor and, for bash, the
    characters at which it breaks words."""
    shell, line, *breaks = arguments
    words = _split(line)
    tree = kept_tree()
    place = find_place(tree, words[1:-1], words[-1])
    kind, found = _candidates(tree, place)
    told = [kind] + [
        _as_shown(shell, place.before + word, description, words[-1], "".join(breaks))
        for word, description in found
    ]
    with suppress(BrokenPipeError):
        print("\n".join(told), flush=True)
    return 0


def _split(line: str) -> list[str]:
    """Return the words of an unfinished line; the last one, at the cursor, may be empty."""
    for closing in ("", '"', "'"):
        try:
            words = shlex.split(line + closing)
        except ValueError:
            continue
        blank = not closing and line[-1:].isspace() and not line.endswith("\\ ")
        return [*words, ""] if blank or not words else words
    return ["", ""]


def find_place(tree: Tree, words: Iterable[str], current: str) -> Place:
    """Return what `current` is when it follows `words`, the words after `agent`."""
    node, waiting, position = tree, "", 0
    for word in words:
        if waiting:
            waiting = ""
        elif word in node.get("options", {}):
            waiting = node["options"][word]["kind"]
        elif word in node.get("commands", {}):
            node = node["commands"][word]
        elif not word.startswith("-"):
            position += 1
    if waiting:
        return Place(node, current, waiting)
    name, equals, value = current.partition("=")
    if equals and (option := node.get("options", {}).get(name)):
        return Place(node, value, option["kind"], f"{name}=")
    kinds = node.get("arguments", [])
    if current.startswith("-") or not kinds:
        return Place(node, current)
    return Place(node, current, kinds[min(position, len(kinds) - 1)])


def _candidates(tree: Tree, place: Place) -> tuple[str, list[tuple[str, str]]]:
    if place.kind in _SHELL_LISTS:
        return place.kind, []
    if place.kind == "commands":
        offered = _helps(tree["commands"])
    elif place.kind:
        offered = words_of_kind(place.kind, tree, place.current)
    else:
        offered = _helps(place.node.get("commands", {}))
        if place.current.startswith("-"):
            offered = _helps(place.node.get("options", {}))
    found = [each for each in offered if each[0].startswith(place.current)]
    joined = bool(found) and all(word.endswith(_JOINED) for word, _ in found)
    return "joined" if joined else "words", found


def _helps(named: Mapping[str, Tree]) -> list[tuple[str, str]]:
    return [(name, each["help"]) for name, each in named.items()]


def _as_shown(shell: str, word: str, description: str, current: str, breaks: str) -> str:
    description = " ".join(description.split())
    if shell == "zsh":
        return word.replace(":", "\\:") + (f":{description}" if description else "")
    if shell == "fish":
        return f"{word}\t{description}"
    # bash replaces only what follows the last character at which it breaks words.
    last = max((current.rfind(char) for char in ":=" if char in breaks), default=-1)
    return shlex.quote(word[last + 1 :]) if word[last + 1 :] else ""
