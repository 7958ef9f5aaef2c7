"""Reading shell commands: which ones certainly change no file."""

from __future__ import annotations

import re
import shlex

_HARMLESS_REDIRECTION = re.compile(r"(?<!\S)[12]?>(?:&[12]|>?\s?/dev/null)(?=\s|$|[|;&])")
_BEYOND_WORDS = frozenset("`$(){}<>\n\r\\!#")
_SEPARATORS = frozenset({"|", "||", "&&", ";"})
_PLAIN = frozenset(
    """[ basename cat cd cmp cut df diff dirname du echo egrep false fgrep file grep head id ls
    md5sum nl pwd readlink realpath sha1sum sha256sum stat tac tail test tr true type uname wc
    whereis which whoami""".split()  # noqa: SIM905
)
"""No option or operand of these writes to a file."""
_WRITING_OPTIONS = {
    "find": re.compile(r"-(?:exec|execdir|ok|okdir|delete|fls|fprint.*)"),
    "rg": re.compile(r"--(?:pre|hostname-bin|search-zip).*|-z"),
    "sort": re.compile(r"-[^-]*[oT].*|--(?:o|t|compress).*"),
    "tree": re.compile(r"-[^-]*[oR].*|--output.*"),
}
_GIT_READS = frozenset(
    ("blame", "diff", "log", "ls-files", "rev-parse", "shortlog", "show", "status")
)
_GIT_WRITING = re.compile(r"--(?:o|ext-diff|textconv|paginate|no-index).*|-[Oo].*")


def is_read_only(command: str) -> bool:
    """Whether `command` is sure to change no file: plain commands that only read, with pipes and
    `&&` between them. False when in doubt, so for everything that a shell would expand."""
    plain = _HARMLESS_REDIRECTION.sub(" ", command)
    if _BEYOND_WORDS & set(plain.strip()):
        return False
    lexer = shlex.shlex(plain, posix=True, punctuation_chars="|&;")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:
        return False
    simple: list[list[str]] = [[]]
    for word in words:
        if word in _SEPARATORS:
            simple.append([])
        elif set(word) & set("|&;"):
            return False
        else:
            simple[-1].append(word)
    if simple[-1] == [] and len(simple) > 1 and words[-1] == ";":
        simple.pop()
    return all(_only_reads(words) for words in simple)


def _only_reads(words: list[str]) -> bool:
    if not words:
        return False
    name, arguments = words[0], words[1:]
    if name in _PLAIN:
        return True
    if name == "git":
        reads = bool(arguments) and arguments[0] in _GIT_READS
        return reads and not any(_GIT_WRITING.fullmatch(word) for word in arguments[1:])
    writes = _WRITING_OPTIONS.get(name)
    expands = any(set(word) & set("*?[~") for word in arguments)
    return (
        writes is not None
        and (not expands or name == "find")
        and not any(writes.fullmatch(word) for word in arguments)
    )
