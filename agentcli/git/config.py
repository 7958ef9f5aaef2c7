"""git's settings: parses them as git does, tells which of them can't make it run a program
(`setting_names.txt`), which places they refer to, and lets commands change them.

dulwich reads 241 of 1,500 random files differently from git; this reads none differently.

Files of settings are parsed here and never by asking git, because others may change a file while we
judge it. Names are complete, as `git config --list` prints them: `core.bare`, `remote.origin.url`;
the part between the first and the last dot keeps its case."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shlex
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from agentcli.git.quarantine import content
from agentcli.system.homes import user_home
from agentcli.workspace.private import read_private

_LISTS = Path(__file__).with_name("setting_names.txt")


def is_among(listed: str, name: str) -> bool:
    """Return whether the list `listed` contains the setting `name`."""
    return _pattern(listed).fullmatch(name) is not None


@cache
def _pattern(listed: str) -> re.Pattern[str]:
    """Return a list's pattern, compiled on first use, because many sessions never need it."""
    _, _, text = _LISTS.read_text("utf-8").partition(f"\n[{listed}]\n")
    return re.compile(text.partition("\n[")[0], re.DOTALL | re.VERBOSE)


_ESCAPES = {"t": "\t", "b": "\b", "n": "\n", "\\": "\\", '"': '"', "\n": ""}
_ESCAPE = r'\\[tbn\\"\n]'
_STRING = rf'"(?:[^"\\\n]|{_ESCAPE})*+"'
_TOKEN = re.compile(
    rf"""
    [ \t\n\r]++ | [#;][^\n]*+
    | \[ (?P<section>[A-Za-z0-9.-]*+)
      (?: (?<=[^[]) \] | [ \t\r]++ "(?P<subsection>(?:[^"\\\n]|\\[^\n])*+)"\] )
    | (?P<key>[A-Za-z][A-Za-z0-9-]*+) [ \t]*+
      (?: (?=\n) | = (?P<value>(?:[^"\\\n#;]|{_ESCAPE}|{_STRING})*+) (?=[\n#;]|\Z) )
    """,
    re.VERBOSE,
)
_PART_OF_VALUE = re.compile(rf"[ \t\r]|{_STRING}|(?:[^ \t\r\"\\]|{_ESCAPE})+")
_BOM = b"\xef\xbb\xbf"


class Setting(NamedTuple):
    """A setting. The value None means that the name stands alone, which git takes as true."""

    name: str
    value: str | None


def parse(data: bytes) -> list[Setting] | None:
    """Return the settings of a file in order, with bytes that are not UTF-8 as surrogates; None if
    git would reject the file."""
    text = data.removeprefix(_BOM).decode(errors="surrogateescape").replace("\r\n", "\n") + "\n"
    settings: list[Setting] = []
    at, above = 0, ""
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or "\0" in found[0]:
            return None
        at = found.end()
        if found["key"] is not None:
            value = None if found["value"] is None else _value_of(found["value"])
            settings.append(Setting(above + found["key"].lower(), value))
        elif found["section"] is not None:
            above = f"{found['section'].lower()}."
            if found["subsection"] is not None:
                above += re.sub(r"\\(.)", r"\1", found["subsection"]) + "."
    return settings


def _value_of(written: str) -> str:
    """Return a value as git understands it: without quotes, and without blanks at its ends."""
    value: list[str] = []
    blanks = 0
    for part in _PART_OF_VALUE.findall(written):
        if part in (" ", "\t", "\r"):
            blanks += bool(value)
        else:
            plain = part[1:-1] if part.startswith('"') else part
            plain = re.sub(r"\\(.)", lambda escape: _ESCAPES[escape[1]], plain, flags=re.DOTALL)
            value += filter(None, (" " * blanks, plain))
            blanks = 0
    return "".join(value)


# --- harmless settings --------------------------------------------------------------------------

_URL = re.compile(r"(?:remote|submodule)\..*\.(?:url|pushurl)", re.DOTALL)
_REMOTE_URL = re.compile(r"remote\..*\.(?:url|pushurl)", re.DOTALL)
_PLAIN_URL = re.compile(r"(?:https?|ssh|git|file)://[^-]|(?![\w+.-]+:/)[./~\w]", re.ASCII)
_BRANCH_REMOTE = re.compile(r"branch\..*\.(?:remote|pushremote)", re.DOTALL)
_REMOTE_NAME = re.compile(r"\.|\w[\w./-]*", re.ASCII)
_WORDS = {
    "core.fsmonitor": ("true", "false"),
    "branch.rebase": ("true", "false", "merges", "interactive"),
    "submodule.update": ("checkout", "rebase", "merge", "none"),
    # Exactly as git-lfs writes them.
    "filter.lfs.clean": ("git-lfs clean -- %f",),
    "filter.lfs.smudge": ("git-lfs smudge -- %f", "git-lfs smudge --skip -- %f"),
    "filter.lfs.process": ("git-lfs filter-process", "git-lfs filter-process --skip"),
    "filter.lfs.required": ("true", "false"),
}
"""Settings that are harmless only with these values."""


def is_harmless(setting: Setting) -> bool:
    """Return whether a setting may come from anyone: it runs nothing and reads no other file."""
    name, value = setting.name, setting.value or ""
    if is_among("harmless", name):
        return True
    if _URL.fullmatch(name):
        return "::" not in value and _PLAIN_URL.match(value) is not None
    if _BRANCH_REMOTE.fullmatch(name):
        return _REMOTE_NAME.fullmatch(value) is not None
    first, _, rest = name.partition(".")
    short = name if name in _WORDS else f"{first}.{rest.rpartition('.')[2]}"
    return value in _WORDS.get(short, ())


def adds_only_harmless(old: Sequence[Setting], new: Sequence[Setting]) -> bool:
    """Return whether a repository's settings may change from `old` to `new` without asking the
    user: those that could run a program are unchanged, and no new one points to another
    place."""
    there = set(old)
    names = {setting.name for setting in old}
    sections = {_section_of(name) for name in names}

    def may_come(setting: Setting) -> bool:
        if setting.name in names or not is_harmless(setting):
            return False
        if _BRANCH_REMOTE.fullmatch(setting.name):
            return setting.value == "." or f"remote.{setting.value}" in sections
        return _section_of(setting.name) not in sections

    powerful = [setting for setting in old if _is_powerful(setting)]
    remotes = {setting for setting in old if _REMOTE_URL.fullmatch(setting.name)}
    return (
        powerful == [setting for setting in new if _is_powerful(setting)]
        # A removed remote could come back with another URL, and nothing to compare it with.
        and remotes <= set(new)
        and all(setting in there or may_come(setting) for setting in new if _leads(setting))
    )


def _is_powerful(setting: Setting) -> bool:
    return not _leads(setting) and not is_harmless(setting)


def _leads(setting: Setting) -> bool:
    """Return whether it says where something is: where work is sent, or which files are meant."""
    name = setting.name
    patterns = (_URL, _BRANCH_REMOTE)
    return name == "core.worktree" or any(each.fullmatch(name) for each in patterns)


def _section_of(name: str) -> str:
    return name.rpartition(".")[0]


class SanitizedConfig(NamedTuple):
    """The text of a file without the settings named in `removed`."""

    text: bytes
    removed: tuple[str, ...]


def sanitize_config(
    data: bytes, keep: Callable[[Setting], bool] = is_harmless
) -> SanitizedConfig | None:
    """Return the file with the settings that `keep` rejects turned into comments; None if it
    rejects none. A file that git would reject becomes a comment as a whole."""
    settings = parse(data)
    if settings is None:
        removed: tuple[str, ...] = ("a file that git can't read",)
    else:
        removed = tuple(dict.fromkeys(s.name for s in settings if not keep(s)))
        if not removed:
            return None
    kept = [setting for setting in settings or () if keep(setting)]
    lines = data.decode(errors="surrogateescape").replace("\0", "?").splitlines()
    was = "".join(f"# {line}\n" for line in lines)
    why = "# Removed by agent, because git could have run programs through it. It was:"
    text = f"{settings_text(kept)}{why}\n{was}"
    return SanitizedConfig(text.encode(errors="surrogateescape"), removed)


def settings_text(settings: Iterable[Setting]) -> str:
    """Return a file with these settings. Those without a section can't be expressed and are left
    out."""
    lines, section = [], ""
    for name, value in settings:
        head, _, key = name.rpartition(".")
        if head and head != section:
            section = head
            first, dot, rest = head.partition(".")
            escaped = rest.replace("\\", "\\\\").replace('"', '\\"')
            lines.append(f'[{first} "{escaped}"]\n' if dot else f"[{first}]\n")
        if head:
            lines.append(f"\t{key}\n" if value is None else f"\t{key} = {_quoted(value)}\n")
    return "".join(lines)


def _quoted(value: str) -> str:
    for letter, char in (("\\", "\\"), ('"', '"'), ("n", "\n"), ("t", "\t"), ("b", "\b")):
        value = value.replace(char, f"\\{letter}")
    return f'"{value}"'


# --- places named by settings -------------------------------------------------------------------

_FILES = re.compile(r"include\.path|includeif\..*\.path|core\.attributesfile", re.DOTALL)
_LARGEST_COMMAND = 4_096
# A file that matches nowhere names no places, so that it need not be parsed.
_MAY_NAME = re.compile(
    rb"path|attributesfile|fsmonitor|command|editor|pager|askpass|gitproxy|clean|smudge|process"
    rb"|textconv|driver|external|program|helper|cmd|filter|hook|pack|update|alias",
    re.IGNORECASE,
)


def named_by_settings(
    settings: Iterable[Setting],
) -> Iterator[tuple[Literal["settings", "hooks", "program"], str]]:
    """Yield the places that settings name, as written: files of further settings, folders of hooks,
    and the words of commands, each of which may be a program or its script."""
    for name, value in settings:
        if not value:
            continue
        if _FILES.fullmatch(name):
            yield "settings", value
        elif name == "core.hookspath":
            yield "hooks", value
        elif is_among("commands", name) or (name.startswith("alias.") and value.startswith("!")):
            for word in _words(value[:_LARGEST_COMMAND]):
                yield "program", word.partition("=")[2] or word


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command.lstrip("!"))
    except ValueError:
        return command.lstrip("!").split()


_MOST_FILES = 50
_LARGEST_FILE = 262_144


def referenced_paths(
    root: Path, settings: Iterable[Path], environ: Mapping[str, str], writable: Sequence[Path]
) -> tuple[list[Path], list[str]]:
    """Return the paths in the folders `writable` to which the repository's files of `settings` and
    those of the user refer, as git reads them in the folder `root`: hooks, further settings,
    programs. They must stay as they are, existing or not. Also returns what can't be protected, in
    words. Conditional settings count too, whether or not their condition is met today."""
    home = user_home(environ)
    protected: dict[Path, None] = {}
    problems: list[str] = []
    waiting = [*settings, *_files_of_the_user(home, environ)]
    seen: set[Path] = set()
    while waiting and len(seen) < _MOST_FILES:
        file = waiting.pop(0)
        data = (read_private(file, _LARGEST_FILE, follow=True) or b"") if file not in seen else b""
        seen.add(file)
        for kind, text in named_by_settings(parse(data) or ()) if _MAY_NAME.search(data) else ():
            place = _resolved(text, file.resolve().parent if kind == "settings" else root, home)
            if place is None or (kind == "program" and not place.is_file()):
                continue
            if kind == "settings":
                waiting.append(place)
            if not any(place.is_relative_to(folder) for folder in writable):
                continue
            if any(folder.is_relative_to(place) for folder in writable):
                problems.append(
                    f"git's settings name {text}, a folder that commands can write to: what git "
                    "runs or reads there can't be protected"
                )
            else:
                protected[place] = None
    return list(protected), problems


def _resolved(text: str, base: Path, home: Path) -> Path | None:
    if text.startswith("~/"):
        text = f"{home}{text[1:]}"
    if text.startswith(("~", "%(", "-")) or "\0" in text:
        return None
    try:
        return Path(os.path.realpath(base / text))
    except OSError:
        return None


def _files_of_the_user(home: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    if named_file := environ.get("GIT_CONFIG_GLOBAL"):
        yield Path(named_file)
    else:
        yield home / ".gitconfig"
        yield Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "git/config"
    yield Path(environ.get("GIT_CONFIG_SYSTEM") or "/etc/gitconfig")


LOCK = ".lock"
_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LINE = re.compile(
    rb"""\[[A-Za-z0-9.-]+(?:\ "(?:[^"\\\0-\x1f\x7f]|\\["\\])+")?\]
    |\t[A-Za-z][A-Za-z0-9-]*\ =\ (?:[^\0-\x1f\x7f]*[^\0-\x1f\x7f\\])?""",
    re.VERBOSE,
)
"""As git writes them, with values that end on the same line."""
_LONGEST_LINE = 1_000
"""Some versions of git cut longer lines in two when they rename a section (CVE-2023-29007)."""
_CONTROL = re.compile(r"[\0-\x1f\x7f]")
_PATIENCE_S = 0.2
_PAUSE_S = 0.001


def let_in(folder: int, name: str, first: bytes) -> tuple[str, ...]:
    """Give the settings file `name` the text of its lock file and remove that, as git's rename
    would have done; return the names of settings that forbid it. `first` is the text before any
    command ran. Raises OSError."""
    new = content(folder, name + LOCK)
    if new is None:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    file = os.open(name, _FLAGS, dir_fd=folder)
    try:
        with _alone(file):
            old = os.pread(file, os.fstat(file).st_size, 0)
            refused = refused_settings(first, old, new)
            if not refused:
                _overwrite(file, old, new)
    finally:
        os.close(file)
    if not refused:
        os.unlink(name + LOCK, dir_fd=folder)
    return refused


def refused_settings(first: bytes, old: bytes, new: bytes) -> tuple[str, ...]:
    """Return the names of settings for which a file may not change from `old` to `new`."""
    begun, was, wanted = parse(first), parse(old), parse(new)
    if begun is None or was is None or wanted is None or not new.endswith(b"\n"):
        return ("what git can't read",)
    changed = {*was} ^ {*wanted}
    lines = set(new.split(b"\n")) - set(old.split(b"\n")) - {b""}
    as_written = (len(line) < _LONGEST_LINE and _LINE.fullmatch(line) is not None for line in lines)
    if adds_only_harmless(begun, wanted) and all(as_written):
        changed = {
            s
            for s in changed
            if _CONTROL.search(f"{s.name}{s.value}") or is_among("layout", s.name)
        }
    elif not changed:
        return ("what git would not write",)
    return tuple(sorted({setting.name for setting in changed}))


@contextlib.contextmanager
def _alone(file: int) -> Iterator[None]:
    """Have the kernel hold up whoever opens the file. Raises OSError if somebody has it open, or if
    its file system can't do that."""
    # What tells us of those who wait must not end us, as the usual signal would.
    fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            break
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_S)
    try:
        yield
    finally:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)


def _overwrite(file: int, old: bytes, new: bytes) -> None:
    """Replace the content `old` by `new`. Raises OSError, and then leaves it as it was."""
    # Between the two calls, a shorter text is followed by empty lines.
    text = new.ljust(len(old), b"\n")
    try:
        if os.pwrite(file, text, 0) != len(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError:
        os.pwrite(file, old, 0)
        os.ftruncate(file, len(old))
        raise
    os.ftruncate(file, len(new))
