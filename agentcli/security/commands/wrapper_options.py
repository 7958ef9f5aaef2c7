"""Options of commands that run other commands: where the command that they run begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentcli.security.commands.script import Words


@dataclass(frozen=True)
class Options:
    """Of a wrapper: letters and long names that stand alone, and those that take a value."""

    flags: str = ""
    valued: str = ""
    long_flags: frozenset[str] = frozenset()
    long_valued: frozenset[str] = frozenset()
    operands: int = 0
    """How many words stand before the command."""
    numeric: bool = False
    """-5 is an option."""


def long_names(text: str) -> frozenset[str]:
    """Names of long options, without their dashes."""
    return frozenset(text.split())


OPTIONS: Mapping[str, Options] = {
    "sudo": Options(
        "AbEHnPSkKBiN",
        "aCcDghpRrTtUu",
        long_names(
            "askpass background preserve-env set-home non-interactive preserve-groups stdin"
        ),
        long_names("user group host prompt chdir chroot close-from role type command-timeout"),
    ),
    "doas": Options("nLs", "aCu"),
    "nohup": Options(),
    "time": Options("pvaq", "", long_names("portability verbose append quiet")),
    "timeout": Options(
        "v",
        "ks",
        long_names("verbose foreground preserve-status"),
        long_names("kill-after signal"),
        1,
    ),
    "nice": Options("", "n", frozenset(), long_names("adjustment"), numeric=True),
    "ionice": Options("t", "cn", long_names("ignore"), long_names("class classdata")),
    "stdbuf": Options("", "ioe", frozenset(), long_names("input output error")),
    "setsid": Options("cfw", "", long_names("ctty fork wait")),
    "builtin": Options(),
    "coproc": Options(),
    "exec": Options("cl", "a"),
    "xargs": Options(
        "0rtxpo",
        "dEILnPsa",
        long_names("null no-run-if-empty verbose exit interactive open-tty"),
        long_names("delimiter max-args max-procs max-lines max-chars replace arg-file eof"),
    ),
    "strace": Options(
        "fFqvyrtTxcCiknwdzZhV",
        "abeEIoOpPsSuUX",
        long_names("follow-forks"),
        long_names("output trace env"),
    ),
    "ltrace": Options("fiLrStTcC", "aAbDeEFlnopsuwx", long_names("demangle"), long_names("output")),
    "chroot": Options("", "", long_names("skip-chdir"), long_names("userspec groups"), 1),
    "unshare": Options(
        "imnpuUCTfrc",
        "RwSGl",
        long_names(
            "ipc mount net pid uts user cgroup time fork map-root-user map-current-user "
            "mount-proc kill-child"
        ),
        long_names("root wd setuid setgid map-user map-group propagation setgroups"),
    ),
    "busybox": Options(),
    "parallel": Options(
        "k0rtuqX",
        "jnNPaId",
        long_names("keep-order dry-run bar halt-on-error"),
        long_names("jobs delay"),
    ),
    "chronic": Options("ev"),
    "caffeinate": Options("disu", "tw"),
    "flock": Options(
        "senuxFo",
        "wEc",
        long_names("shared exclusive nonblock unlock close"),
        long_names("timeout"),
        1,
    ),
    "watch": Options(
        "bcdegtwpx",
        "nq",
        long_names("beep color differences errexit chgexit no-title no-wrap precise exec"),
        long_names("interval equexit"),
    ),
}


def after_options(words: Words, options: Options) -> int | None:
    """Where the command of a wrapper begins; None when its options can't all be told."""
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
        taken = _taken(word, options)
        if taken is None or (taken == 2 and words[at + 1 : at + 2] in ((), (None,))):
            return None
        at += taken
    operands = words[at : at + options.operands]
    return None if None in operands or len(operands) < options.operands else at + options.operands


def _taken(word: str, options: Options) -> int | None:
    """How many words the option `word` takes, itself included; None when it isn't known."""
    if word.startswith("--"):
        name, equals, _ = word[2:].partition("=")
        if name in options.long_valued:
            return 1 if equals else 2
        return 1 if name in options.long_flags and (not equals or name == "preserve-env") else None
    if options.numeric and word[1:].isdigit():
        return 1
    for at, letter in enumerate(word[1:], 1):
        if letter in options.valued:
            return 2 if at == len(word) - 1 else 1
        if letter not in options.flags:
            return None
    return 1
