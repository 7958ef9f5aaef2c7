"""Judges commands by tables: what certainly only reads, what a rule covers by its first words
(known_commands.toml), and which words do more harm than a command's name suggests
(dangerous_options.toml)."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentcli.security.commands.script import Redirect, SimpleCommand, Words
from agentcli.security.commands.shell_parse import parse_script
from agentcli.security.commands.wrappers import bare_words, command_name, is_of_the_system

_NAME = re.compile(r"(?![-/~@])[\w./:@+-]+")
_INSIDE = r"(?![/~@])(?!(?:.*/)?\.\.(?:/|$))(?!\w+://).*"
ANY_NAME = "*"


@dataclass(frozen=True)
class KnownCommand:
    """A row of the table. Each word after `words` must match one of the `options` completely or, if
    it does not begin with a dash, one of the `operands`. `rest`: what follows a lone -- is for the
    project's own program. `offered`: suggest it as a rule to save."""

    words: tuple[str, ...]
    options: re.Pattern[str]
    operands: re.Pattern[str]
    rest: bool
    offered: bool

    def begins(self, words: Words) -> bool:
        if len(words) < len(self.words):
            return False
        return all(
            word is not None and (bool(_NAME.fullmatch(word)) if want == ANY_NAME else word == want)
            for word, want in zip(words, self.words, strict=False)
        )

    def first_unknown_word(self, words: Words, given: int) -> str | None:
        """Return the first word that this row does not cover, so that it may change what the
        command does; None if every word is covered. The first `given` words are not checked,
        because a rule names them."""
        for word in words[max(given, len(self.words)) :]:
            if word == "--" and self.rest:
                return None
            if word is None:
                return "?"
            is_operand = not word.startswith("-") and self.operands.fullmatch(word)
            if not (self.options.fullmatch(word) or is_operand):
                return word or "?"
        return None


def known_command(words: Words) -> KnownCommand | None:
    """Return the row for a command called by its bare name or from a system folder."""
    bare = bare_words(words)
    rows = _table().get(bare[0] or "", ()) if bare else ()
    return next((row for row in rows if row.begins(bare)), None)


@functools.cache
def _table() -> Mapping[str, tuple[KnownCommand, ...]]:
    """Return the rows by program name, those with the most words first."""
    rows: dict[str, list[KnownCommand]] = {}
    for entry in tomllib.loads(Path(__file__).with_name("known_commands.toml").read_text("utf-8"))[
        "command"
    ]:
        options = re.compile("|".join(entry["options"].split()), re.DOTALL)
        operands = re.compile(entry.get("operands", _INSIDE), re.DOTALL)
        rest, offered = entry.get("rest", False), entry.get("offer", True)
        for text in entry["words"]:
            words = tuple(text.split())
            row = KnownCommand(words, options, operands, rest, offered)
            rows.setdefault(words[0], []).append(row)
    return {
        name: tuple(sorted(found, key=lambda row: len(row.words), reverse=True))
        for name, found in rows.items()
    }


_SHORTEST = len("--f")
"""Programs accept a prefix of a long option from this length on."""


@dataclass(frozen=True)
class Danger:
    """A row of the table."""

    words: tuple[str, ...]
    options: tuple[str, ...]
    operands: re.Pattern[str]
    whole: bool
    before: bool
    why: str
    sources: tuple[str, ...]

    def includes(self, word: str) -> bool:
        if not word.startswith("-") or word == "-":
            return bool(self.operands.fullmatch(word))
        return any(_is_option(word, option) for option in self.options)


@dataclass(frozen=True)
class Found:
    """A word of a command, and what it does that a rule must name: `why` fits after "which"."""

    word: str
    why: str


def danger_beyond(words: Words, given: int) -> Found | None:
    """Return the first word of a command that makes it more dangerous and is not among the first
    `given` words, which a rule names. The command must be called by its bare name or from a system
    folder. A word known to be harmless does not count as an abbreviation of a dangerous one."""
    bare = bare_words(words)
    for row in dangers().get(bare[0] or "", ()) if bare else ():
        places = _places(bare, row.words)
        if places is None:
            continue
        if row.whole:
            if places[-1] >= given:
                return Found(" ".join(row.words), row.why)
            continue
        known = known_command(bare)
        end = len(bare)
        if row.before:
            end = max(next_words(bare, 1), default=end)
        elif known is not None and known.rest and "--" in bare:
            # The rest goes to the project's program.
            end = bare.index("--")
        for at in range(max(1, given), end):
            word = bare[at]
            if at not in places and word is not None and row.includes(word):
                # A separate option may only begin like a dangerous one.
                named = not word.startswith("--") or word.partition("=")[0] in row.options
                if not named and known is not None and known.options.fullmatch(word):
                    continue
                return Found(word, row.why)
    return None


def next_words(words: Words, at: int) -> Iterator[int]:
    """Yield where the next word of a command may be, skipping options from `at` on. What follows an
    option may be its value or that word; only the program knows which."""
    follows_option = False
    while at < len(words):
        word = words[at]
        if word is not None and word.startswith("-"):
            follows_option = "=" not in word
        else:
            yield at
            if not follows_option:
                return
            follows_option = False
        at += 1


def _places(words: Words, wanted: Sequence[str]) -> tuple[int, ...] | None:
    """Return where the words of a row are in `words`, with only options and their values between
    them; None if they are not there."""
    places: tuple[int, ...] = (0,)
    for want in wanted[1:]:
        # The first place is enough: what may follow a later one may follow this one too.
        found = (at for at in next_words(words, places[-1] + 1) if words[at] == want)
        place = next(found, None)
        if place is None:
            return None
        places += (place,)
    return places


def _is_option(word: str, option: str) -> bool:
    if option.startswith("--"):
        if "=" in option:
            return word == option
        name = word.partition("=")[0]
        return name == option or (len(name) >= _SHORTEST and option.startswith(name))
    # Short options can be bundled, and a value may follow without a space.
    return not word.startswith("--") and option[1] in word[1:].partition("=")[0]


@functools.cache
def dangers() -> Mapping[str, tuple[Danger, ...]]:
    """Return the rows of the table by program name."""
    rows: dict[str, list[Danger]] = {}
    for entry in tomllib.loads(
        Path(__file__).with_name("dangerous_options.toml").read_text("utf-8")
    )["danger"]:
        for text in entry["words"]:
            row = Danger(
                words=tuple(text.split()),
                options=tuple(entry.get("options", "").split()),
                operands=re.compile(entry.get("operands", "(?!)"), re.DOTALL),
                whole=entry.get("whole", False),
                before=entry.get("before", False),
                why=entry["why"],
                sources=tuple(entry["source"].split()),
            )
            rows.setdefault(row.words[0], []).append(row)
    return {name: tuple(found) for name, found in rows.items()}


_PLAIN = frozenset(
    """: [ basename cat cd cmp comm command cut df diff dirname du echo egrep expr false fgrep file
    fold grep head id join ls md5sum nl paste printf pwd readlink realpath rev seq sha1sum sha256sum
    stat strings sum tac tail test tr true type uname wc whereis which whoami""".split()  # noqa: SIM905
)
"""Commands without options or operands that write a file or run a program, apart from the refused
options below."""
_REFUSED_OPTIONS: Mapping[str, re.Pattern[str]] = {
    "file": re.compile(r"-[^-]*C.*|--c.*"),
    "printf": re.compile(r"-v.*"),
    "test": re.compile(r"-[vR]"),
    "[": re.compile(r"-[vR]"),
    "diff": re.compile(r"-[^-]*l.*|--pag.*"),
}
_GUARDED: Mapping[str, re.Pattern[str]] = {
    "find": re.compile(r"-(?:exec|execdir|ok|okdir|delete|fls|fprint.*)"),
    "rg": re.compile(r"--(?:pre|hostname-bin|search-zip).*|-[^-]*z.*"),
    "sort": re.compile(r"-[^-]*[oT].*|--(?:o|t|compress|files0).*"),
    "tree": re.compile(r"-[^-]*[oR].*|--output.*"),
    "jq": re.compile(r"-[^-]*[fL].*|--(?:from-file|library).*"),
    "date": re.compile(r"-[^-]*[sf].*|--(?:s|f).*|[^+-].*"),
}
"""Commands that do write or run something with these options. All their words must be known, so
that no file name can turn into an option."""
_FOLLOWING_GREP = re.compile(r"-[^-efmABCdD]*R.*|--der.*")
_OPENS_OTHERS: Mapping[str, re.Pattern[str]] = {
    "grep": _FOLLOWING_GREP,
    "egrep": _FOLLOWING_GREP,
    "fgrep": _FOLLOWING_GREP,
    "rg": re.compile(r"-[^-efgtTmABCjrEMd]*L.*|--follow"),
    "diff": re.compile(r"-[^-UCWxXFID]*r.*|--rec.*"),
    "strings": re.compile(r"@.*"),
    "file": re.compile(r"-[^-]*f.*|--files-f.*"),
    "wc": re.compile(r"--files0.*"),
    "jq": re.compile(r".*\b(?:import|include)\s*\".*", re.DOTALL),
}
"""Words with which commands that only read open files that none of their words name: by links found
in a search, or by names in another file."""
_GIT_READS = frozenset(
    """blame cat-file describe diff grep log ls-files ls-tree merge-base rev-list rev-parse shortlog
    show show-ref status""".split()  # noqa: SIM905
)
_GIT_REFUSED = re.compile(
    r"--(?!oneline$|others$|ours$|only$)o.*|-[Oo].*|.*%[-+ ]?G.*"
    r"|--(?:ext|textc|pag|no-index|filt|show-s|recu|subm|rem|diff-m|help).*"
)
_SED_PRINTS = re.compile(r"(?:\d+|\$)?(?:,(?:\d+|\$))?p")
_TRANSPARENT = frozenset(("command", "builtin", "time", "timeout", "nice", "env", "bash", "sh"))
_HARMLESS_VARIABLES = re.compile(
    r"CI|NO_COLOR|FORCE_COLOR|CLICOLOR(?:_FORCE)?|LANG|LANGUAGE|LC_[A-Z]+|TZ|COLUMNS|LINES|VERBOSE"
    r"|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|PYTHONHASHSEED|NODE_ENV|RUST_BACKTRACE|RUST_LOG"
    r"|CARGO_TERM_COLOR"
)


def is_read_only(command: str) -> bool:
    """Return whether `command` certainly changes no file and reaches no network. False in doubt, so
    for anything known only when it runs, except names of files (*.py)."""
    script = parse_script(command)
    if script.unclear or not script.verified or not script.commands:
        return False
    moved = any(part.words[:1] == ("cd",) for part in script.commands)
    return all(only_reads(part) and not (moved and runs_git(part)) for part in script.commands)


def reads_unless_told(word: str) -> bool:
    """Return whether a command of this name only reads unless it is given options that no rule
    should cover for it."""
    return (command_name(word) or "") in _GUARDED or command_name(word) in ("sed", "awk")


def runs_git(part: SimpleCommand) -> bool:
    return part.name == "git"


def opens_only_named(part: SimpleCommand) -> bool:
    """Return whether all that a command opens, if it only reads, is known from its words: it
    follows no link below a folder, and takes no names from files."""
    words = [word for word in part.words[1:] if word is not None]
    if part.name == "diff" and "--no-dereference" in words:
        return True
    others = _OPENS_OTHERS.get(part.name or "")
    return others is None or not any(map(others.fullmatch, words))


def changes_meaning(part: SimpleCommand) -> str:
    """Return a variable set for `part` that may change what its words do; "" if there is none."""
    return next((n for n in part.assignments if not _HARMLESS_VARIABLES.fullmatch(n)), "")


def writes_by_redirect(redirect: Redirect) -> bool:
    """Return whether a redirect may write to a file, or reach the network through bash's
    /dev/tcp."""
    target = redirect.target
    if target is None or target.startswith(("/dev/tcp", "/dev/udp")):
        return True
    if redirect.operator in ("<", "<<", "<<<"):
        return False
    if redirect.operator in (">&", "<&", ">&-", "<&-") and re.fullmatch(r"\d*-?", target):
        return False
    return target != "/dev/null"


def only_reads(part: SimpleCommand) -> bool:
    """Return whether this one command certainly only reads, whatever is around it."""
    if not part.words or not all(wrapper in _TRANSPARENT for wrapper in part.wrappers):
        return False
    names = [level[0] for level in part.levels]
    if not all(name and is_of_the_system(name) for name in names):
        return False
    if changes_meaning(part) or any(writes_by_redirect(r) for r in part.redirects):
        return False
    name, arguments = part.name or "", part.words[1:]
    if name in _PLAIN:
        refused = _REFUSED_OPTIONS.get(name)
        if refused is None:
            return part.literal or part.globs
        return part.literal and not any(refused.fullmatch(w) for w in arguments if w)
    if not part.literal:
        return False
    known = [word for word in arguments if word is not None]
    if name == "git":
        reads = bool(known) and known[0] in _GIT_READS
        return reads and not any(map(_GIT_REFUSED.fullmatch, known[1:]))
    if name == "sed":
        prints = known[:1] == ["-n"] and len(known) > 1 and _SED_PRINTS.fullmatch(known[1])
        return bool(prints) and not any(word.startswith("-") for word in known[2:])
    guard = _GUARDED.get(name)
    return guard is not None and not any(guard.fullmatch(word) for word in known)
