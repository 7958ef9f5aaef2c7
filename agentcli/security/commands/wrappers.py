"""Commands that run other commands: what they run, as far as their words tell."""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agentcli.security.commands.script import Words
from agentcli.security.commands.wrapper_options import OPTIONS, Options, after_options, long_names

_SYSTEM_FOLDERS = frozenset(
    ("/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/opt/homebrew/bin")
)
HARMLESS = frozenset(
    (
        *("env", "nohup", "time", "timeout", "gtimeout", "nice", "ionice", "stdbuf", "setsid"),
        *("command", "builtin", "exec", "eval", "coproc", "trap", "bash", "sh", "dash", "xargs"),
    )
)
"""What these run may be judged as if it stood there alone: they add no rights of their own."""
SHELLS = frozenset(("bash", "sh", "dash", "ash", "ksh", "mksh", "zsh", "fish", "csh", "tcsh"))
INTERPRETERS = re.compile(
    r"(?:i?python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|luajit|tclsh|expect|osascript"
    r"|Rscript|julia|ghci|irb|gdb|ts-node|tsx|pwsh|powershell|guile|elixir|erl)[0-9.]*"
)
_CODE_OPTION = re.compile(
    r"-[A-Za-z]*[cCeEprRxX].*|--(?:eval|execute|print|command|expression|run|ex|batch)(?:=.*)?"
    r"|eval|-"
)
SOURCED = "the lines of the file it reads are not known"
FOREIGN_CODE = "it runs code of another language"


@dataclass(frozen=True)
class Unwrapped:
    """What a wrapper runs: commands by their words, and `scripts` for a shell. `stays`: the wrapper
    does something of its own too. `assigned` are variables it sets for them."""

    commands: tuple[Words, ...] = ()
    scripts: tuple[str, ...] = ()
    assigned: tuple[str, ...] = ()
    unclear: str = ""
    stays: bool = False


def command_name(word: str | None) -> str | None:
    """The name of a command without the folder it is called from."""
    return os.path.split(word)[1] if word else word


def is_of_the_system(word: str) -> bool:
    """Whether a command's name, as written, can only mean that of the system."""
    folder, name = os.path.split(word)
    return bool(name) and (not folder or folder in _SYSTEM_FOLDERS)


def unwrap(words: Words) -> Unwrapped | None:
    """What the command `words` would run beside itself; None when it is no known wrapper."""
    name = command_name(words[0]) if words else None
    if name is None:
        return None
    if name in _SPECIAL:
        return _SPECIAL[name](words)
    if name in SHELLS:
        return _shell(words)
    if INTERPRETERS.fullmatch(name):
        return _interpreter(words)
    options = OPTIONS.get(name)
    if options is None:
        return None
    at = after_options(words, options)
    if at is None:
        return Unwrapped(unclear=f"not all options of {name} are known", stays=True)
    rest = words[at:]
    if not rest:
        return Unwrapped(stays=True) if name != "xargs" else Unwrapped((("echo", None),))
    return Unwrapped((rest,))


_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=", re.ASCII)


def _with_assignments(words: Words, at: int) -> Unwrapped:
    assigned = []
    while at < len(words):
        word = words[at]
        if word is None:
            return Unwrapped(unclear="what it runs is known only when it runs", stays=True)
        found = re.match(r"([^=]*)=", word)
        if not found:
            break
        assigned.append(found[1])
        at += 1
    if at == len(words):
        return Unwrapped(assigned=tuple(assigned), stays=True)
    return Unwrapped((words[at:],), assigned=tuple(assigned))


_ENV = Options(
    "i0v",
    "uC",
    long_names("ignore-environment null debug"),
    long_names("unset chdir"),
)


def _env(words: Words) -> Unwrapped:
    at = after_options(tuple("-i" if w == "-" else w for w in words), _ENV)
    if at is None:
        return Unwrapped(unclear="not all options of env are known", stays=True)
    unwrapped = _with_assignments(words, at)
    moved = any(w and w.startswith(("-C", "--chdir")) for w in words[1:at])
    if moved:
        return Unwrapped(
            unwrapped.commands, (), unwrapped.assigned, "it runs in another folder", stays=True
        )
    return unwrapped


def _sudo(words: Words) -> Unwrapped:
    options = OPTIONS[command_name(words[0]) or ""]
    at = after_options(words, options)
    if at is None:
        return Unwrapped(unclear="not all options of sudo are known", stays=True)
    unwrapped = _with_assignments(words, at)
    edits = any(w in ("-e", "-s", "--edit", "--shell", "--login") for w in words[1:at])
    return Unwrapped((), stays=True, unclear="it opens a shell") if edits else unwrapped


def _command(words: Words) -> Unwrapped | None:
    at = 1
    while at < len(words) and words[at] in ("-p", "--"):
        at += 1
    first = words[at] if at < len(words) else ""
    if first is not None and (first == "" or re.fullmatch(r"-p?[vV]+p?", first)):
        return None
    if first is not None and first.startswith("-"):
        return Unwrapped(unclear="not all options of command are known", stays=True)
    return Unwrapped((words[at:],))


def _joined(words: Sequence[str | None]) -> str | None:
    return None if None in words else " ".join(word for word in words if word is not None)


def _keyword(words: Words) -> Unwrapped:
    """time and coproc stand before a statement, with what is assigned for it."""
    at = after_options(words, OPTIONS[command_name(words[0]) or "time"])
    if at is None:
        return Unwrapped(unclear="not all options of time are known", stays=True)
    assigned = []
    while at < len(words) and (found := _ASSIGNMENT.match(words[at] or "")):
        assigned.append(found[1])
        at += 1
    if at == len(words):
        return Unwrapped(assigned=tuple(assigned), stays=True)
    return Unwrapped((words[at:],), assigned=tuple(assigned))


def _eval(words: Words) -> Unwrapped:
    arguments = words[2:] if words[1:2] == ("--",) else words[1:]
    text = _joined(arguments)
    if text is None:
        return Unwrapped(unclear="what eval runs is known only when it runs", stays=True)
    return Unwrapped(scripts=(text,))


def _trap(words: Words) -> Unwrapped | None:
    arguments = words[2:] if words[1:2] == ("--",) else words[1:]
    if len(arguments) < 2 or arguments[0] in ("-", "-p", "-l", ""):
        return None
    if arguments[0] is None:
        return Unwrapped(unclear="what trap runs is known only when it runs", stays=True)
    return Unwrapped(scripts=(arguments[0],))


def _watch(words: Words) -> Unwrapped:
    at = after_options(words, OPTIONS["watch"])
    if at is None or at == len(words):
        return Unwrapped(unclear="not all options of watch are known", stays=True)
    text = _joined(words[at:])
    if text is None:
        return Unwrapped(
            (words[at:],), unclear="what watch runs is known only when it runs", stays=True
        )
    return Unwrapped(scripts=(text,))


def _parallel(words: Words) -> Unwrapped:
    at = after_options(words, OPTIONS["parallel"])
    inner = () if at is None or at == len(words) else ((*words[at:], None),)
    return Unwrapped(inner, unclear="what parallel runs is known only when it runs", stays=True)


def _xargs(words: Words) -> Unwrapped:
    at = after_options(words, OPTIONS["xargs"])
    if at is None:
        return Unwrapped(unclear="not all options of xargs are known", stays=True)
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


def _shell(words: Words) -> Unwrapped | None:
    """bash -c SCRIPT, with the options before it."""
    at, is_script, reads_input = 1, False, False
    while at < len(words):
        word = words[at]
        if word is None or word in _SHELL_VALUED or re.match(r"[-+]\w*O", word):
            return Unwrapped(unclear="what the shell runs is known only when it runs", stays=True)
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
    if is_script and operand and not words[at + 1 :]:
        differs = command_name(words[0]) != "bash" and _BASH_ONLY.search(operand)
        if differs:
            return Unwrapped(
                scripts=(operand,), unclear="another shell reads it differently", stays=True
            )
        return Unwrapped(scripts=(operand,))
    if is_script:
        scripts = (operand,) if operand else ()
        return Unwrapped(
            scripts=scripts, unclear="what the shell runs is known only when it runs", stays=True
        )
    if reads_input or not operand:
        return Unwrapped(unclear="the shell runs what it reads", stays=True)
    return None


_BASH_ONLY = re.compile(
    r"\$'|\$\"|&>|>&|\|&|[<>]\(|;&|;;&|\[\[|\(\(|<<<|\{|\b(?:function|select|coproc|time)\b|\+="
)


def _interpreter(words: Words) -> Unwrapped | None:
    """Code on the command line or from the standard input; a file of code is a plain argument."""
    for word in words[1:]:
        if word is None:
            return Unwrapped(unclear=FOREIGN_CODE, stays=True)
        if re.fullmatch(r"-[mV]|--version|--help|-h|--check|--test|test|run|-version", word):
            return None
        if _CODE_OPTION.fullmatch(word):
            return Unwrapped(unclear=FOREIGN_CODE, stays=True)
        if not word.startswith("-"):
            return None
    return Unwrapped(unclear=FOREIGN_CODE, stays=True)


def _unclear(reason: str) -> Callable[[Words], Unwrapped]:
    return lambda words: Unwrapped(unclear=reason, stays=True)


def _set(words: Words) -> Unwrapped | None:
    """Only the options that make a script stop earlier or show more."""
    plain = all(
        w is not None and re.fullmatch(r"[-+][eux]*o?|errexit|nounset|xtrace|pipefail", w)
        for w in words[1:]
    )
    return None if plain else Unwrapped(unclear="set changes how bash reads", stays=True)


def _evaluates_names(words: Words) -> Unwrapped | None:
    """Builtins to which a[$(x)] is a variable run x to find out which."""
    if all(w is not None and "[" not in w for w in words[1:]):
        if command_name(words[0]) in ("mapfile", "readarray") and any(
            w and w.startswith(("-C", "-c")) for w in words
        ):
            return Unwrapped(unclear="mapfile -C runs a command", stays=True)
        return None
    return Unwrapped(unclear="names of variables are known only when it runs", stays=True)


def _printf(words: Words) -> Unwrapped | None:
    return _evaluates_names(words) if words[1:2] != () and _sets_variable(words) else None


def _sets_variable(words: Words) -> bool:
    return any(w is None or w.startswith("-v") for w in words[1:2])


def _test(words: Words) -> Unwrapped | None:
    if any(word in ("-v", "-R") for word in words):
        return _evaluates_names(words[:-1] if words[-1] in ("]", "]]") else words)
    return None


CHANGES_MEANING = "it changes what later words mean"
_SPECIAL: Mapping[str, Callable[[Words], Unwrapped | None]] = {
    "env": _env,
    "sudo": _sudo,
    "doas": _sudo,
    "command": _command,
    "time": _keyword,
    "coproc": _keyword,
    "eval": _eval,
    "trap": _trap,
    "watch": _watch,
    "parallel": _parallel,
    "xargs": _xargs,
    "find": _find,
    "gfind": _find,
    "set": _set,
    "read": _evaluates_names,
    "unset": _evaluates_names,
    "mapfile": _evaluates_names,
    "readarray": _evaluates_names,
    "getopts": _evaluates_names,
    "printf": _printf,
    "test": _test,
    "[": _test,
    "let": _unclear("arithmetic can run commands that hide in variables"),
    "wait": _evaluates_names,
    "ssh": _unclear("it runs elsewhere"),
    "source": _unclear(SOURCED),
    ".": _unclear(SOURCED),
    "su": _unclear("it opens a shell"),
    "script": _unclear("it opens a shell"),
    **{
        name: _unclear(CHANGES_MEANING)
        for name in (
            *("alias", "unalias", "enable", "hash", "shopt", "bind", "complete", "compgen"),
            *("compopt", "fc", "history", "noglob", "nocorrect", "emulate", "zmodload", "autoload"),
        )
    },
}
