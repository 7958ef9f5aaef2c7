"""Say what can follow on a command line. Somebody has pressed a key and is waiting, so commands and
options come from a file that is made once, and only what the word at the cursor needs is imported.

The first line of the answer says what the others are: `words`, `joined` (words that get no space
after them), `files` or `folders`; the shell lists those two itself. A word may be followed by a tab
and its description.
"""

from __future__ import annotations

import json
import shlex
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from agentcli.app.configuration.store import use_configured_store
from agentcli.system.homes import state_home
from agentcli.system.programs import user_environ
from agentcli.workspace.private import read_private, replace_atomically

_PACKAGE = Path(__file__).parents[2]
_MAX_BYTES = 10_000_000


def kept_tree() -> dict[str, Any]:
    """Return the tree from the file, or make it anew if a command changed or a package was
    installed since."""
    path = state_home(user_environ()) / "completion.json"
    stamp = _stamp()
    kept = read_private(path, _MAX_BYTES)
    with suppress(ValueError, TypeError, KeyError):
        if kept is not None and (tree := json.loads(kept))["stamp"] == stamp:
            return dict(tree)
    from agentcli.cli.completion.make_tree import make_tree

    tree = {"stamp": stamp, **make_tree()}
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_atomically(path, json.dumps(tree).encode())
    return tree


def _stamp() -> str:
    """Return a stamp that changes with every command file and with every installed package."""
    cli = _PACKAGE / "cli"
    files = [_PACKAGE / "settings.py", *cli.glob("*.py"), *(cli / "sessions").glob("*.py")]
    files += [*(cli / "commands").glob("*.py"), cli / "completion" / "make_tree.py"]
    places = [_PACKAGE, cli, cli / "commands", *files, *map(Path, sys.path)]
    newest = 0
    for place in places:
        with suppress(OSError):
            newest = max(newest, place.stat().st_mtime_ns)
    return f"{_PACKAGE}:{len(files)}:{newest}"


_MOST_SESSIONS = 50
_CONNECT_S = 0.05
_LONGEST_TITLE = 60


def words_of_kind(kind: str, tree: Mapping[str, Any], current: str) -> list[tuple[str, str]]:
    """Return the words with their descriptions; none for a kind whose values can't be known."""
    if "|" in kind:
        return [(choice, "") for choice in kind.split("|")]
    match kind:
        case "sessions":
            return list(_sessions())
        case "models":
            return list(_models(tree["models"]))
        case "skills":
            return list(_skills())
        case "keys":
            return list(tree["keys"].items())
        case "assignments":
            return [(f"{key}=", said) for key, said in tree["keys"].items()]
    return []


def _sessions() -> Iterator[tuple[str, str]]:
    """Yield the sessions of this folder, the most recently used first, by name if they have one."""
    from agentcli.sessions.finder import offered

    use_configured_store()
    home = state_home(user_environ())
    for found in islice(offered(home, Path.cwd().resolve()), _MOST_SESSIONS):
        state = found.state
        title = " ".join(state.title.split())[:_LONGEST_TITLE]
        shown = "".join(char if char.isprintable() else " " for char in title)
        yield (state.name or found.folder.name, shown)


def _skills() -> Iterator[tuple[str, str]]:
    """Yield the skills known in this folder."""
    from agentcli.cli.commands.skills import known_skills

    for skill in known_skills().found:
        yield skill.name, "".join(c for c in skill.description if c.isprintable())[:_LONGEST_TITLE]


def _models(catalogued: Mapping[str, list[str]]) -> Iterator[tuple[str, str]]:
    """Yield catalogued models of providers with a key, and models of local servers that answer."""
    from agentcli.app.configuration.places import stored_keys
    from agentcli.llm.provider import known_providers
    from agentcli.llm.registry import Providers

    environ = user_environ()
    known = known_providers()
    keys = {**stored_keys(environ).values, **environ}
    for name, models in catalogued.items():
        if keys.get(known[name].key_env or ""):
            yield from ((f"{name}/{model}", "") for model in models)
    if any(_listens(kind.base_url) for kind in known.values() if kind.local):
        yield from ((name, "on this machine") for name in Providers({}, environ).local_models())


def _listens(address: str) -> bool:
    parts = urlsplit(address)
    try:
        with socket.create_connection((parts.hostname or "", parts.port or 80), _CONNECT_S):
            return True
    except OSError:
        return False


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
