"""Commands that run other commands: what they run, as far as their words tell. Their options are
listed in wrapper_options.toml."""

from __future__ import annotations

import functools
import os.path
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agentcli.security.commands.script import Words


@dataclass(frozen=True)
class Options:
    """A row of the table, which explains the fields."""

    short: str = ""
    long: str = ""
    operands: int = 0
    numeric: bool = False

    def words_taken(self, word: str) -> int | None:
        """Return how many words the option `word` takes, including itself; None if unknown."""
        if word.startswith("--"):
            name, equals, _ = word[2:].partition("=")
            names = self.long.split()
            if f"{name}=" in names:
                return 1 if equals else 2
            return 1 if name in names and (not equals or name == "preserve-env") else None
        if self.numeric and word[1:].isdigit():
            return 1
        for at, letter in enumerate(word[1:], 1):
            if f"{letter}:" in self.short:
                return 2 if at == len(word) - 1 else 1
            if letter == ":" or letter not in self.short:
                return None
        return 1


@functools.cache
def wrapper_options() -> Mapping[str, Options]:
    """Return the rows by the wrapper's name. The first script to be judged loads them, in
    1.5 ms."""
    rows = tomllib.loads(Path(__file__).with_name("wrapper_options.toml").read_text("utf-8"))
    return {name: Options(**row) for name, row in rows.items()}


def after_options(words: Words, options: Options) -> int | None:
    """Return where a wrapper's command begins; None if not all its options are known."""
    at = 1
    while at < len(words):
        word = words[at]
        if word is None:
            return None
        if word == "--":
            at += 1
            break
        if not word.startswith("-") or word == "-":
            break
        taken = options.words_taken(word)
        if taken is None or (taken == 2 and words[at + 1 : at + 2] in ((), (None,))):
            return None
        at += taken
    operands = words[at : at + options.operands]
    return None if None in operands or len(operands) < options.operands else at + options.operands


_SYSTEM_FOLDERS = frozenset(
    ("/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/opt/homebrew/bin")
)
_HARMLESS = frozenset(
    (name,)
    for name in """env nohup time timeout gtimeout nice ionice stdbuf setsid command builtin exec
    eval coproc trap bash sh dash xargs""".split()  # noqa: SIM905
)
SHELLS = frozenset(("bash", "sh", "dash", "ash", "ksh", "mksh", "zsh", "fish", "csh", "tcsh"))
INTERPRETERS = re.compile(
    r"(?:i?python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|luajit|tclsh|expect|osascript"
    r"|Rscript|julia|ghci|irb|gdb|ts-node|tsx|pwsh|powershell|guile|elixir|erl)[0-9.]*"
)
_CODE_OPTION = re.compile(
    r"-[A-Za-z]*[cCeEprRxX].*|--(?:eval|execute|print|command|expression|run|ex|batch)(?:=.*)?"
    r"|eval|-"
)
SOURCED = "what is in the file it sources is not known"
FOREIGN_CODE = "it runs code of another language"
CHANGES_MEANING = "it changes what later words mean"


@dataclass(frozen=True)
class Unwrapped:
    """What a wrapper runs: `commands` as words, and `scripts` for a shell. `stays`: the wrapper
    also does something itself. `assigned` are variables that it sets for them. `unclear` says why
    not everything is known."""

    commands: tuple[Words, ...] = ()
    scripts: tuple[str, ...] = ()
    assigned: tuple[str, ...] = ()
    unclear: str = ""
    stays: bool = False


def command_name(word: str | None) -> str | None:
    """Return the name of a command without the folder it is called from."""
    return os.path.split(word)[1] if word else word


def is_of_the_system(word: str) -> bool:
    """Return whether a command's name, as written, can only mean the system's command."""
    folder, name = os.path.split(word)
    return bool(name) and (not folder or folder in _SYSTEM_FOLDERS)


def bare_words(words: Words) -> Words:
    """Return the words of a command with its bare name if that can only mean the system's command;
    otherwise none."""
    if not words or words[0] is None or not is_of_the_system(words[0]):
        return ()
    return (command_name(words[0]), *words[1:])


def is_harmless_wrapper(words: Words) -> bool:
    """Return whether a wrapper grants no extra rights, so that what it runs may be judged as if it
    stood alone."""
    return bare_words(words)[:1] in _HARMLESS


def unwrap(words: Words) -> Unwrapped | None:
    """Return what the command `words` would run besides itself; None if it is no known wrapper."""
    name = command_name(words[0]) if words else None
    if name is None:
        return None
    if name in _UNCLEAR:
        return _unclear(_UNCLEAR[name])
    if name in _SPECIAL:
        return _SPECIAL[name](words)
    if name in SHELLS:
        return _shell(words)
    if INTERPRETERS.fullmatch(name):
        return _interpreter(words)
    options = wrapper_options().get(name)
    if options is None:
        return None
    at = after_options(words, options)
    if at is None:
        return _unclear(f"not all options of {name} are known")
    return _AFTER_OPTIONS.get(name, _plain)(words, at)


def _unclear(reason: str, *commands: Words) -> Unwrapped:
    return Unwrapped(commands, unclear=reason, stays=True)


def _plain(words: Words, at: int) -> Unwrapped:
    return Unwrapped((words[at:],)) if words[at:] else Unwrapped(stays=True)


_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=", re.ASCII)
_ANY_ASSIGNMENT = re.compile(r"([^=]*)=")


def _keyword(words: Words, at: int, form: re.Pattern[str] = _ASSIGNMENT) -> Unwrapped:
    """Handle time and coproc, which precede a statement and its assignments."""
    assigned = []
    while at < len(words) and (found := form.match(words[at] or "")):
        assigned.append(found[1])
        at += 1
    return replace(_plain(words, at), assigned=tuple(assigned))


def _with_assignments(words: Words, at: int) -> Unwrapped:
    unwrapped = _keyword(words, at, _ANY_ASSIGNMENT)
    if any(command[0] is None for command in unwrapped.commands):
        return _unclear("what it runs is known only when it runs")
    return unwrapped


def _env(words: Words) -> Unwrapped:
    at = after_options(tuple("-i" if w == "-" else w for w in words), wrapper_options()["env"])
    if at is None:
        return _unclear("not all options of env are known")
    unwrapped = _with_assignments(words, at)
    if any(w and w.startswith(("-C", "--chdir")) for w in words[1:at]):
        return replace(unwrapped, unclear="it runs in another folder", stays=True)
    return unwrapped


def _sudo(words: Words, at: int) -> Unwrapped:
    if any(w in ("-e", "-s", "--edit", "--shell", "--login") for w in words[1:at]):
        return _unclear("it opens a shell")
    return _with_assignments(words, at)


def _command(words: Words) -> Unwrapped | None:
    at = 1
    while at < len(words) and words[at] in ("-p", "--"):
        at += 1
    first = words[at] if at < len(words) else ""
    if first is not None and (first == "" or re.fullmatch(r"-p?[vV]+p?", first)):
        return None
    if first is not None and first.startswith("-"):
        return _unclear("not all options of command are known")
    return Unwrapped((words[at:],))


def _joined(words: Sequence[str | None]) -> str | None:
    return None if None in words else " ".join(word for word in words if word is not None)


def _eval(words: Words) -> Unwrapped:
    text = _joined(words[2:] if words[1:2] == ("--",) else words[1:])
    if text is None:
        return _unclear("what eval runs is known only when it runs")
    return Unwrapped(scripts=(text,))


def _trap(words: Words) -> Unwrapped | None:
    arguments = words[2:] if words[1:2] == ("--",) else words[1:]
    if len(arguments) < 2 or arguments[0] in ("-", "-p", "-l", ""):
        return None
    if arguments[0] is None:
        return _unclear("what trap runs is known only when it runs")
    return Unwrapped(scripts=(arguments[0],))


def _watch(words: Words, at: int) -> Unwrapped:
    if at == len(words):
        return _unclear("not all options of watch are known")
    text = _joined(words[at:])
    if text is None:
        return _unclear("what watch runs is known only when it runs", words[at:])
    return Unwrapped(scripts=(text,))


def _parallel(words: Words) -> Unwrapped:
    at = after_options(words, wrapper_options()["parallel"])
    inner = () if at is None or at == len(words) else ((*words[at:], None),)
    return _unclear("what parallel runs is known only when it runs", *inner)


def _xargs(words: Words, at: int) -> Unwrapped:
    return Unwrapped(((*(words[at:] or ("echo",)), None),))


_FIND_RUNS = ("-exec", "-execdir", "-ok", "-okdir")


def _find(words: Words) -> Unwrapped | None:
    found: list[Words] = []
    at = 1
    while at < len(words):
        if words[at] not in _FIND_RUNS:
            at += 1
            continue
        end = at + 1
        while end < len(words) and words[end] != ";":
            if words[end] == "+" and words[end - 1] == "{}":
                break
            end += 1
        inner = tuple(None if w is None or "{}" in w else w for w in words[at + 1 : end])
        if inner:
            found.append(inner)
        at = end + 1
    return Unwrapped(tuple(found), stays=True) if found else None


_SHELL_VALUED = ("--rcfile", "--init-file")
_SHELL_LATER = "what the shell runs is known only when it runs"


def _shell(words: Words) -> Unwrapped | None:
    """Handle bash -c SCRIPT, with the options before it."""
    at, is_script, reads_input = 1, False, False
    while at < len(words):
        word = words[at]
        if word is None or word in _SHELL_VALUED or re.match(r"[-+]\w*O", word):
            return _unclear(_SHELL_LATER)
        if word in ("--", "-"):
            at += 1
            break
        if word.startswith("--"):
            at += 1
            continue
        if not word.startswith(("-", "+")):
            break
        is_script = is_script or ("c" in word and word.startswith("-"))
        reads_input = reads_input or "s" in word
        at += 2 if word[-1] == "o" else 1
    operand = words[at] if at < len(words) else ""
    scripts = (operand,) if is_script and operand else ()
    if scripts and not words[at + 1 :]:
        if command_name(words[0]) != "bash" and _BASH_ONLY.search(scripts[0]):
            return Unwrapped((), scripts, unclear="another shell reads it differently", stays=True)
        return Unwrapped(scripts=scripts)
    if is_script:
        return Unwrapped((), scripts, unclear=_SHELL_LATER, stays=True)
    return _unclear("the shell runs what it reads") if reads_input or not operand else None


_BASH_ONLY = re.compile(
    r"\$'|\$\"|&>|>&|\|&|[<>]\(|;&|;;&|\[\[|\(\(|<<<|\{|\b(?:function|select|coproc|time)\b|\+="
)


def _interpreter(words: Words) -> Unwrapped | None:
    """Handle code on the command line or from stdin; a file of code is an ordinary argument."""
    for word in words[1:]:
        if word is None:
            return _unclear(FOREIGN_CODE)
        if re.fullmatch(r"-[mV]|--version|--help|-h|--check|--test|test|run|-version", word):
            return None
        if _CODE_OPTION.fullmatch(word):
            return _unclear(FOREIGN_CODE)
        if not word.startswith("-"):
            return None
    return _unclear(FOREIGN_CODE)


def _set(words: Words) -> Unwrapped | None:
    """Allow only the options that make a script stop earlier or show more."""
    plain = all(
        w is not None and re.fullmatch(r"[-+][eux]*o?|errexit|nounset|xtrace|pipefail", w)
        for w in words[1:]
    )
    return None if plain else _unclear("set changes how bash reads the rest")


def _evaluates_names(words: Words) -> Unwrapped | None:
    """Handle builtins that take names of variables: given a[$(x)], they run x to evaluate it."""
    if all(w is not None and "[" not in w for w in words[1:]):
        if command_name(words[0]) in ("mapfile", "readarray") and any(
            w and w.startswith(("-C", "-c")) for w in words
        ):
            return _unclear("mapfile -C runs a command")
        return None
    return _unclear("names of variables are known only when it runs")


def _printf(words: Words) -> Unwrapped | None:
    sets_variable = any(w is None or w.startswith("-v") for w in words[1:2])
    return _evaluates_names(words) if sets_variable else None


def _test(words: Words) -> Unwrapped | None:
    if any(word in ("-v", "-R") for word in words):
        return _evaluates_names(words[:-1] if words[-1] in ("]", "]]") else words)
    return None


_AFTER_OPTIONS: Mapping[str, Callable[[Words, int], Unwrapped]] = {
    **{"sudo": _sudo, "doas": _sudo, "time": _keyword, "coproc": _keyword},
    **{"watch": _watch, "xargs": _xargs},
}
"""How to handle the words once it is known where the options end."""
_SPECIAL: Mapping[str, Callable[[Words], Unwrapped | None]] = {
    **{"env": _env, "command": _command, "eval": _eval, "trap": _trap, "parallel": _parallel},
    **{"find": _find, "gfind": _find, "set": _set, "printf": _printf, "test": _test, "[": _test},
    **dict.fromkeys(("read", "unset", "mapfile", "readarray", "getopts", "wait"), _evaluates_names),
}
_UNCLEAR: Mapping[str, str] = {
    "let": "arithmetic can run commands that are hidden in variables",
    "ssh": "it runs elsewhere",
    **dict.fromkeys(("source", "."), SOURCED),
    **dict.fromkeys(("su", "script"), "it opens a shell"),
    **dict.fromkeys(
        (
            *("alias", "unalias", "enable", "hash", "shopt", "bind", "complete", "compgen"),
            *("compopt", "fc", "history", "noglob", "nocorrect", "emulate", "zmodload", "autoload"),
        ),
        CHANGES_MEANING,
    ),
}
