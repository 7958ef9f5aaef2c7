"""Recognizes commands that certainly change no file and reach no network."""

from __future__ import annotations

import re
from collections.abc import Mapping

from agentcli.security.commands.script import Redirect, SimpleCommand
from agentcli.security.commands.shell_parse import parse_script
from agentcli.security.commands.wrappers import command_name, is_of_the_system

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
