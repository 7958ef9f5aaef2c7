"""Finds what a shell command would do to files: delete, move, write, or change their rights."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

from agentcli.security.commands.script import Redirect, Script, SimpleCommand, Words
from agentcli.security.commands.shell_paths import Expander, Target
from agentcli.security.commands.shell_words import without_quoted
from agentcli.security.commands.wrappers import INTERPRETERS, SHELLS

Verb = Literal[
    "delete", "delete some of", "move", "write", "append to", "change the permissions of"
]
"""`delete some of`: only what a filter selects from a folder."""

_WRITING_OPERATORS = {">", ">>", ">|", "&>", "&>>", "<>", ">&"}
_SYSTEM_PROGRAMS = re.compile(r"/(?:usr/)?(?:local/)?s?bin/([^/]+)")


class Effect(NamedTuple):
    """What happens to a target; `recursive`: also to everything below it."""

    verb: Verb
    target: Target
    recursive: bool = False


@dataclass(frozen=True)
class _Shape:
    """How a command treats its operands. `verb` is what happens to them; if `last` is set, it is
    what happens to the last one, and `verb` applies to the others. `valued` are the letters of
    short options that take a value; without an option matching `needs`, nothing is written."""

    verb: Verb | None
    last: Verb | None = None
    valued: str = ""
    needs: str = ""


_SHAPES: dict[str, _Shape] = {
    **dict.fromkeys(("rm", "rmdir", "unlink", "srm", "shred"), _Shape("delete")),
    "mv": _Shape("move", "write", valued="tS"),
    **dict.fromkeys(("cp", "ln", "scp"), _Shape(None, "write", valued="tS")),
    "install": _Shape(None, "write", valued="tSgmo"),
    "rsync": _Shape(None, "write", valued="efBT"),
    "tee": _Shape("write"),
    "truncate": _Shape("write", valued="sr"),
    "sed": _Shape("write", valued="ef", needs=r"-[a-zA-Z]*i.*|--in-place.*"),
    "perl": _Shape("write", valued="eEIM", needs=r"-[a-zA-Z]*i.*"),
}
_OUTPUT_OPTIONS: dict[str, re.Pattern[str]] = {
    "curl": re.compile(r"-[a-zA-Z]*o|--output"),
    "wget": re.compile(r"-[a-zA-Z]*O|--output-document"),
    "sort": re.compile(r"-[a-zA-Z]*o|--output"),
    "find": re.compile(r"-fprintf?0?|-fls"),
}
_RIGHTS = {"chmod", "chown", "chgrp", "setfacl", "chattr"}
_RECURSIVE = re.compile(r"-[a-zA-Z]*[rR][a-zA-Z]*|--recursive|--archive")
_FIND_OPTION = re.compile(r"-[HLPD]|-O\d")
_FIND_FILTERS = re.compile(
    r"-(?:i?name|i?path|i?wholename|i?regex|[acm](?:min|time|newer)|newer.*|size|empty|user|group"
    r"|perm|links|inum|samefile|i?lname)"
)
_FIND_NAMES = re.compile(r"-i?(?:name|path)|-i?wholename")


def system_command_name(words: Words) -> str:
    """Return the name of a command, without its folder if that is one for system programs."""
    name = (words[0] if words else "") or ""
    if found := _SYSTEM_PROGRAMS.fullmatch(name):
        return found[1]
    return name


def options(words: Words) -> list[str]:
    """Return the known options among `words`."""
    found = []
    for word in words[1:]:
        if word == "--":
            break
        if word is not None and word.startswith("-") and len(word) > 1:
            found.append(word)
    return found


def operands(words: Words, valued: str = "") -> list[str | None]:
    """Return the words that are neither options nor values of the short options `valued`."""
    found: list[str | None] = []
    rest = iter(words[1:])
    for word in rest:
        if word == "--":
            return [*found, *rest]
        if word is None or not word.startswith("-") or word == "-":
            found.append(word)
        elif re.fullmatch(rf"-[a-zA-Z]*[{valued}]", word) if valued else False:
            next(rest, None)
    return found


def effects(command: SimpleCommand, expander: Expander) -> Iterator[Effect]:
    """Yield the effects of one command, as far as they are known, in each folder that it may run
    in."""
    for here in expander.around(command):
        yield from _effects(command, here)


def _effects(command: SimpleCommand, here: Expander) -> Iterator[Effect]:
    words = command.words
    yield from _redirected(command, here)
    name = system_command_name(words)
    if name == "dd":
        for word in words[1:]:
            if word is not None and word.startswith("of="):
                yield Effect("write", here.literal(word[3:]))
    elif name in _RIGHTS:
        recursive = any(map(_RECURSIVE.fullmatch, options(words)))
        changed = operands(words)
        skipped = 0 if any("--reference" in option for option in options(words)) else 1
        for word in dict.fromkeys(changed[skipped:]):
            for target in _targets(command, word, here):
                yield Effect("change the permissions of", target, recursive)
    elif name in _SHAPES:
        yield from _shaped(command, _SHAPES[name], here)
    elif name == "find" and "-delete" in words:
        for target, filtered in _found(words, here):
            yield Effect("delete some of" if filtered else "delete", target, True)
    if name in _OUTPUT_OPTIONS:
        yield from _outputs(words, _OUTPUT_OPTIONS[name], here)


def deletes_unknown(command: SimpleCommand, expander: Expander) -> bool:
    """Return whether it deletes whole folders in unknown places."""
    words = command.words
    if system_command_name(words) != "rm" or not any(map(_RECURSIVE.fullmatch, options(words))):
        return False
    return any(
        not _targets(command, word, here)
        for here in expander.around(command)
        for word in operands(words)
        if word != ""
    )


def _redirected(command: SimpleCommand, here: Expander) -> Iterator[Effect]:
    for redirect in command.redirects:
        if redirect.operator in _WRITING_OPERATORS and redirect.target != "":
            if redirect.operator == ">&" and re.fullmatch(r"\d+|-", redirect.target or ""):
                continue
            verb: Verb = "append to" if ">>" in redirect.operator else "write"
            for target in here.targets(redirect.target, (redirect.raw,)):
                yield Effect(verb, target)


def _shaped(command: SimpleCommand, shape: _Shape, here: Expander) -> Iterator[Effect]:
    words = command.words
    given = options(words)
    if shape.needs and not any(re.fullmatch(shape.needs, option) for option in given):
        return
    recursive = any(map(_RECURSIVE.fullmatch, given))
    changed = operands(words, shape.valued)
    folder = _target_folder(words) if shape.last else None
    if shape.last and folder is None and changed:
        folder = changed.pop()
    if shape.verb:
        for word in dict.fromkeys(changed):
            filtered = word in (None, "{}") and _selects(_selecting(command))
            for target in _targets(command, word, here):
                entry = target.entry if shape.verb in ("delete", "move") else target
                yield Effect("delete some of" if filtered else shape.verb, entry, recursive)
    if folder is not None and shape.last:
        into = any(re.fullmatch(r"-[a-zA-Z]*T|--no-target-directory", option) for option in given)
        clears = any(option.startswith("--del") for option in given) or into
        for target in _targets(command, folder, here):
            yield Effect("delete" if clears else shape.last, target, True)
            yield from _placed(changed, target)


def _placed(sources: Sequence[str | None], folder: Target) -> Iterator[Effect]:
    """Yield the effects on files that are put into a folder under their old names."""
    for source in sources:
        name = Path(source).name if source else ""
        for place in folder.places:
            if name and not folder.pattern and place.is_dir():
                yield Effect("write", Target((place / name,), (), name))


def _target_folder(words: Words) -> str | None:
    for word, following in pairwise([*words, None]):
        if word is not None and word.startswith("--target-directory="):
            return word.partition("=")[2]
        if re.fullmatch(r"-[a-zA-Z]*t|--target-directory", word or "") and following is not None:
            return following
    return None


def _outputs(words: Words, option: re.Pattern[str], here: Expander) -> Iterator[Effect]:
    for before, word in pairwise(words):
        if before is not None and word is not None and option.fullmatch(before):
            yield Effect("write", here.literal(word))
        elif word is not None and word.startswith(("--output=", "--output-document=")):
            yield Effect("write", here.literal(word.partition("=")[2]))


def _targets(command: SimpleCommand, word: str | None, here: Expander) -> list[Target]:
    if word is not None and word != "{}":
        return here.targets(word, ())
    found = here.targets(None, command.unknown)
    if "find" in command.wrappers:
        found += [target for target, _ in _found(_level(command, "find"), here)]
    source = command.piped_from
    if {"xargs", "parallel"} & set(command.wrappers) and source is not None:
        if system_command_name(source.words) in ("echo", "printf"):
            lines = [line for text in source.words[1:] if text for line in text.split()]
            found += [here.literal(line) for line in lines if not line.startswith("-")]
            found += here.targets(None, source.unknown)
        elif system_command_name(source.words) == "find":
            found += [target for target, _ in _found(source.words, here)]
    return found


def _selects(words: Words) -> bool:
    """Return whether this `find` selects among the contents of its folders."""
    return any(word is not None and _FIND_FILTERS.fullmatch(word) for word in words)


def _selecting(command: SimpleCommand) -> Words:
    """Return the words of the `find` that runs `command` or is piped into it; none if there is
    none."""
    source = command.piped_from
    words = _level(command, "find")
    if not words and source is not None and system_command_name(source.words) == "find":
        words = source.words
    return words


def filters(command: SimpleCommand) -> list[str] | None:
    """Return the name patterns, as globs, by which `find` selects what `command` works on; None if
    it selects by something else."""
    is_find = system_command_name(command.words) == "find"
    words = command.words if is_find else _selecting(command)
    found = [
        value
        for negation, word, value in zip(words, words[1:], words[2:], strict=False)
        if word and value and _FIND_NAMES.fullmatch(word) and negation not in ("!", "-not")
    ]
    return [*found, ""] if "-empty" in words else found or None


def _level(command: SimpleCommand, name: str) -> Words:
    return next((level for level in command.levels if system_command_name(level) == name), ())


def _found(words: Words, here: Expander) -> Iterator[tuple[Target, bool]]:
    """Yield the folders that `find` walks, and whether it selects among their contents."""
    roots: list[str | None] = []
    for word in words[1:]:
        if word is not None and _FIND_OPTION.fullmatch(word):
            continue
        if word is not None and word.startswith(("-", "(", "!")):
            break
        roots.append(word)
    selects = _selects(words)
    for root in roots or ["."]:
        for target in here.targets(root, ()):
            yield target, selects


_RUNS_TEXT = {*SHELLS, "eval", "source", ".", "trap", "watch", "xargs", "find", "parallel"}


def inputs_of(command: SimpleCommand) -> Iterator[Redirect]:
    """Yield what is given to a command as its input, directly or through a pipe."""
    source: SimpleCommand | None = command
    while source is not None:
        yield from source.redirects
        source = source.piped_from


def run_text(text: str, script: Script, *, other_languages: bool) -> str:
    """Return `text` without the data in it. `other_languages`: count code of interpreters too."""
    for command in script.commands:
        names = {*command.wrappers, system_command_name(command.words)}
        if command.words[:1] == (None,) or names & _RUNS_TEXT:
            return text
        if other_languages and any(map(INTERPRETERS.fullmatch, names)):
            return text
    for command in script.commands:
        for redirect in command.redirects:
            text = text.replace(redirect.text, "") if redirect.text else text
    return without_quoted(text)
