"""Resolves where words of a shell command lead: variables, `~`, braces, globs, `..`, symlinks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import islice, product
from pathlib import Path
from pwd import getpwnam

from agentcli.security.commands.script import SimpleCommand
from agentcli.security.commands.shell_words import Part, parts, tokens

_MOST_CANDIDATES = 256
_MOST_FOLDERS = 8
_MOST_BRACES = 40
_MOST_VALUES = 16
_LONGEST_PATH = 4_096
_LONGEST_WRITTEN = 2 * _LONGEST_PATH
_GLOB = re.compile(r"[*?[]")
_ESCAPED = re.compile(r"\[([*?[])\]")
_EVERYTHING = re.compile(r"\.?[*?]*\*[*?]*|\.\[!?\^?\.\]\*|\*\.\*")
_RANGE = re.compile(r"(\w)\.\.(\w)")
_PARAMETER = re.compile(
    r"(?P<plain>\w+|[@*])|\{(?P<name>\w+|[@*])"
    r"(?:(?P<use>:?[-=+?])(?P<word>.*)|(?P<cut>%%?|\#\#?)(?P<affix>.*)"
    r"|:(?P<start>\d+)(?::(?P<length>\d+))?)?\}",
    re.DOTALL,
)
_COMMA, _CLOSING = Part("plain", ","), Part("plain", "}")


@dataclass(frozen=True)
class Target:
    """The places that a word names. `places` are absolute: the entry itself in its resolved folder
    and, if it is a symlink, what it leads to. `pattern` holds the components from the first glob
    on, below each of the places. `written` is the word."""

    places: tuple[Path, ...]
    pattern: tuple[str, ...] = ()
    written: str = ""

    def names(self, place: Path) -> bool:
        """Return whether it is `place` itself, or all of its content."""
        patterns = [self.pattern]
        while patterns[-1] and _EVERYTHING.fullmatch(patterns[-1][-1]):
            # All content of a folder stands for it.
            patterns.append(patterns[-1][:-1])
        relative = [_relative(place, base) for base in self.places]
        return any(_matches(parts, pattern) for parts in relative for pattern in patterns)

    def holds(self, place: Path) -> bool:
        """Return whether it is `place` or a folder above it."""
        return any(self.names(folder) for folder in (place, *place.parents))

    def within(self, folder: Path) -> bool:
        """Return whether it is `folder`, or something below it."""
        for base in self.places:
            if base.is_relative_to(folder):
                return True
            rest = _relative(folder, base)
            if rest is not None and _matches(rest, self.pattern[: len(rest)]):
                return True
        return False

    @property
    def entry(self) -> Target:
        """The target without what a symlink leads to: what a deletion or a move removes."""
        return replace(self, places=self.places[:1])


def _join(folder: str | None, text: str) -> str | None:
    """Keep a trailing slash, which means the target of a symlink instead of the symlink. Return
    None if the path can't be known."""
    if text.startswith("/"):
        return text
    return None if folder is None else f"{folder}/{text}"


def _has_globs(text: str) -> bool:
    return _GLOB.search(_ESCAPED.sub("", text)) is not None


def _real(path: str) -> Path:
    """Resolve a path; leave it as written if it can't be known, as in other processes' folders."""
    try:
        return Path(os.path.realpath(path))
    except OSError:
        return Path(os.path.normpath(path))


def _relative(place: Path, base: Path) -> tuple[str, ...] | None:
    return place.relative_to(base).parts if place.is_relative_to(base) else None


def _matches(parts: tuple[str, ...] | None, pattern: tuple[str, ...]) -> bool:
    """Match names as bash does: a leading dot must be written."""
    if parts is None or len(parts) != len(pattern):
        return False
    return all(
        fnmatchcase(part, glob) and (part.startswith(".") <= glob.startswith((".", "[.]")))
        for part, glob in zip(parts, pattern, strict=True)
    )


@dataclass(frozen=True)
class Expander:
    """Expands words as a shell in `cwd` with these variables would; if that is None, the folder is
    not known, and relative paths lead nowhere. `values` are literal assignments in the script: any
    of them may apply where a variable is used."""

    cwd: str | None
    home: str
    environ: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    stays: bool = False
    """Take a folder that is not known for this one, where a wrong guess leads to a question."""

    def with_variables(self, assigned: Iterable[tuple[str, str]]) -> Expander:
        """Return an expander that also knows variables, given by name and value as written."""
        values: dict[str, tuple[str, ...]] = {}
        found = replace(self, values=values)
        for name, raw in assigned:
            known = [value for value in found.texts(raw) if value is not None]
            values[name] = (*values.get(name, ()), *known)[-_MOST_VALUES:]
        return found

    def at(self, folder: str | None) -> Expander:
        """Return the expander after a `cd` to `folder`, if there was one."""
        if folder is None:
            return self
        return replace(self, cwd=_join(self.cwd, self._tilde(folder)))

    def around(self, command: SimpleCommand) -> list[Expander]:
        """Return expanders for all folders that `command` may run in."""
        found: list[str | None] = [self.at(command.cwd).cwd]
        for written in command.moves:
            texts = [text and (None if _has_globs(text) else text) for text in self.texts(written)]
            after = (
                _join(folder, _ESCAPED.sub(r"\1", text)) if text else None
                for folder in found
                for text in texts or [None]
            )
            found = list(dict.fromkeys(islice(after, _MOST_FOLDERS)))
            found += [None] * (next(after, None) is not None)
        otherwise = self.cwd if self.stays else None
        return [replace(self, cwd=folder) for folder in {each or otherwise: None for each in found}]

    def texts(self, raw: str) -> list[str | None]:
        """Return what the written word `raw` may stand for; None among it means something unknown.
        Globs stay, quoted ones as `[*]`. What is too long for a path is unknown."""
        if len(raw) > _LONGEST_WRITTEN:
            return [None]
        found: dict[str | None, None] = {}
        for word in islice(_braces(list(parts(raw))), _MOST_CANDIDATES):
            for pieces in islice(product(*map(self._meanings, word)), _MOST_CANDIDATES):
                known = [piece for piece in pieces if piece is not None]
                text = "".join(known) if len(known) == len(pieces) else None
                if text is not None and len(text) > _LONGEST_PATH:
                    text = None
                if len(found) >= _MOST_CANDIDATES:
                    return [*found, None]
                found[text if text is None else self._tilde(text)] = None
        return list(found)

    def literal(self, word: str) -> Target:
        """Return where a word with known text leads; `~` is expanded even if it was quoted."""
        return self._target(self._tilde(_GLOB.sub(r"[\g<0>]", word)), word)

    def targets(self, word: str | None, candidates: Iterable[str]) -> list[Target]:
        """Return where a word of a command leads. For a word that is known only at run time, return
        what the written words `candidates` may be; nothing if that is unknown too."""
        if word is not None:
            return [self.literal(word)] if word else []
        return [self._target(text, raw) for raw in candidates for text in self.texts(raw) if text]

    def _target(self, text: str, written: str) -> Target:
        path = _join(self.cwd, text)
        if path is None:
            return Target((), (), written)
        parts = f"/{path.lstrip('/')}".split("/")
        at = next((i for i, part in enumerate(parts) if _has_globs(part)), None)
        base = _ESCAPED.sub(r"\1", "/".join(parts[:at])) or "/"
        if at is not None:
            rest = os.path.normpath("/" + "/".join(parts[at:])).split("/")[1:]
            return Target((_real(base),), tuple(rest), written)
        folder, name = os.path.split(base.rstrip("/") or "/")
        real = _real(base)
        if name in ("", ".", "..") or base.endswith("/"):
            return Target((real,), (), written)
        entry = _real(folder) / name
        return Target((entry,) if entry == real else (entry, real), (), written)

    def _tilde(self, text: str) -> str:
        if not text.startswith("~"):
            return text
        user, slash, rest = text[1:].partition("/")
        if user in ("", "+"):
            folder = self.cwd if user else self.home
            return text if folder is None else folder + slash + rest
        try:
            return getpwnam(user).pw_dir + slash + rest
        except KeyError:
            return text

    def _meanings(self, part: Part) -> list[str | None]:
        """Return what a part of a word may stand for."""
        match part.kind:
            case "quoted":
                return [_GLOB.sub(r"[\g<0>]", part.text)]
            case "parameter":
                return self._parameter(part.text)
            case "command":
                return self._output(part.text)
            case "torn":
                return [None] if part.text.startswith("$") else [""]
        return [part.text]

    def _output(self, script: str) -> list[str | None]:
        """Return what `script` may print, if it is nothing but pwd, echo, printf or a question for
        the root of the repository."""
        if script.split() == ["git", "rev-parse", "--show-toplevel"] and self.cwd is not None:
            around = (Path(self.cwd), *Path(self.cwd).parents)
            return [next((str(folder) for folder in around if (folder / ".git").exists()), None)]
        places = tokens(script) or []
        name, *arguments = [script[t.start : t.end] for t in places] or [""]
        if name == "pwd" and not arguments:
            return [self.cwd]
        if name not in ("echo", "printf") or any(script[t.start] in "<>&;|()\n" for t in places):
            return [None]
        found = islice(product(*map(self.texts, arguments)), _MOST_CANDIDATES)
        return [None if None in words else " ".join(filter(None, words)) for words in found]

    def _parameter(self, written: str) -> list[str | None]:
        found = _PARAMETER.fullmatch(written)
        if found is None:
            return [None]
        values = self._values(found["plain"] or found["name"])
        if found["use"]:
            other = self.texts(found["word"])
            known = [value for value in values if value]
            if found["use"].endswith("?"):
                return [*values]
            return [*other, ""] if found["use"].endswith("+") else [*known, *other]
        if found["start"]:
            start, length = int(found["start"]), found["length"]
            end = start + int(length) if length else None
            return [value and value[start:end] for value in values]
        if found["cut"]:
            affix = found["affix"]
            cut = str.removesuffix if found["cut"][0] == "%" else str.removeprefix
            return [value and cut(value, affix) for value in values]
        return [*values]

    def _values(self, name: str) -> list[str | None]:
        if name in "@*":
            return [""]
        known: list[str | None] = [*self.values.get(name, ())]
        given: dict[str, str | None] = {**self.environ, "PWD": self.cwd, "HOME": self.home}
        return [*known, given[name]] if name in given else known or [None]


def _braces(word: list[Part]) -> Iterator[list[Part]]:
    """Yield the words that brace expansion makes of one, the innermost braces first."""
    openings = [at for at, part in enumerate(word) if part.kind == "brace"]
    if not 0 < len(openings) <= _MOST_BRACES:
        yield word
        return
    before, after = word[: openings[-1]], []
    for part in word[openings[-1] + 1 :]:
        # Unquoted commas and closing braces become parts of their own.
        texts = re.split(r"([,}])", part.text) if part.kind == "plain" else [part.text]
        after += [Part(part.kind, text) for text in texts]
    end = after.index(_CLOSING) if _CLOSING in after else -1
    inside = after[: max(end, 0)]
    if len(inside) == 1 and (letters := _RANGE.fullmatch(inside[0].text)):
        first, last = sorted(map(ord, letters.groups()))
        choices = [[Part("plain", chr(code))] for code in range(first, last + 1)]
    elif _COMMA in inside:
        choices = [[]]
        for part in inside:
            if part == _COMMA:
                choices.append([])
            else:
                choices[-1].append(part)
    else:
        yield from _braces([*before, Part("plain", "{"), *after])
        return
    for choice in choices:
        yield from _braces([*before, *choice, *after[end + 1 :]])
