"""The lines that our bash reads: how a command is framed, and what it reports.

Nothing that commands do to the shell may affect these lines. Commands are sourced from a file, so
their quoting can't swallow the frame; `\builtin` bypasses aliases and functions; `/dev/tty` is
there whatever was redirected. The fallback report is an error in an arithmetic expansion, which no
function or alias can intercept (for when `builtin` itself is a function). The exported variables
are listed ahead of the report; the fallback for that is a shell in POSIX mode, which looks for
`export` and `unset` among its builtins first.

A command line of several parts is marked so that bash records the status of each, but only if it is
plain: words, quotes and separators that can be read in one way only.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from agentcli.shell.output import HEAD_SHARE, SOURCE_HEAD_SHARE, replace_surrogates
from agentcli.shell.terminal_request import MARK

VARIABLE = "_agent_parts"
_PIECE = re.compile(
    r"""'[^']*'|"(?:[^"\\`$]|\\[\s\S]|\$(?!\())*"|(?P<end>[;\n])"""
    r"""|\\[\s\S]|&&|[<>]&[\d-]|&>>?|\$\{\w+\}|\$(?![('"{])|\{[\w.,/-]*\}|<(?![<(])|>(?!\()"""
    r"""|(?<=[^\s;])\#|[^'"\\`;\n&$(){}#<>]"""
)
_UNFINISHED = re.compile(r"(?:&&|\|\|?)\s*$")
_OPEN = re.compile(r"[<>]&?\s*$")
_NOT_PLAIN = re.compile(
    r"\s*(?:(?:if|then|elif|else|fi|for|while|until|do|done|case|esac|select|function|coproc|time"
    r"|set|shopt|trap|alias|unalias|exec|exit|return|eval|source|enable)\b|!|\[\[|\.\s)"
)
_TOLD_OF_LAST = re.compile(r"\$(?:_(?!\w)|\{_\})|PIPESTATUS")
_MOST_SHOWN = 60
_PRINTS_SOURCE = re.compile(
    r"(?:^|[;&|\n])\s*(?:cat|bat|nl|sed|awk|head|less|more|xxd|git\s+(?:show|diff|blame|log))\b"
    r"[^;|&\n]*$"
)


def parts_of(command: str) -> list[str]:
    """Return the parts of `command`, each ending with its separator; empty if it has only one or is
    not plain."""
    if _TOLD_OF_LAST.search(command):
        return []
    parts, start, at = [], 0, 0
    while at < len(command):
        piece = _PIECE.match(command, at)
        if piece is None:
            return []
        at = piece.end()
        if piece["end"]:
            part = command[start : at - 1]
            if _OPEN.search(part) or (piece["end"] == ";" and _is_blank(part)):
                return []
            if not _is_blank(part) and not _UNFINISHED.search(part):
                parts.append(command[start:at])
                start = at
    rest = command[start:]
    if not _is_blank(rest):
        parts.append(rest)
    elif parts:
        parts[-1] += rest
    return parts if len(parts) > 1 and not any(map(_NOT_PLAIN.match, parts)) else []


def _is_blank(part: str) -> bool:
    return not part.replace("\\\n", "").strip()


def with_marks(parts: Sequence[str]) -> str:
    """Return a command that also records, in a variable, number and status of each part that ends:
    all except the last, and those whose status the next part reads itself."""
    text = ""
    for number, part in enumerate(parts[:-1]):
        mark = "" if "$?" in parts[number + 1] else f'; {VARIABLE}+=" {number}:$?"'
        text += f"{part[:-1]}{mark}{part[-1]}"
    return text + parts[-1]


def ended_parts(parts: Sequence[str], recorded: str) -> list[tuple[str, int]]:
    """Return the parts that had ended with their statuses, as `recorded` in the variable."""
    found = re.findall(r"(\d{1,4}):(\d{1,3})\b", recorded)
    return [(shortened(parts[int(n)]), int(code)) for n, code in found if int(n) < len(parts)]


def head_share(command: str) -> float:
    """Return the head's share in what a cut leaves of the output. If the command shows files, at
    the end at least, the beginning says more; with most other programs, the end does."""
    return SOURCE_HEAD_SHARE if _PRINTS_SOURCE.search(command.strip()) else HEAD_SHARE


def shortened(command: str) -> str:
    line = " ".join(command.strip(" \t\n;").split())
    return line if len(line) <= _MOST_SHOWN else f"{line[: _MOST_SHOWN - 1]}…"


_START = rb"""
unset HISTFILE TMOUT MAILCHECK
set +o history
PS1= PS2= PROMPT_COMMAND=
trap '\builtin kill -INT $$' RTMAX 2>/dev/null
"""
FALLBACK_PREFIX = "bash: _agent_reported: "
"""What bash prints before the text of `end_line`."""
NOISY_FLAGS = frozenset("%xv")
"""Flags of a shell that itself prints between commands: prompts, traces."""

MAY_EXPORT = re.compile(rb"=|\b(?:export|declare|typeset|unset|source|eval|read)\b|(?:^|\s)\.\s")
"""A script that itself seems to change exported variables; functions it calls may, too."""
JOB_NOTICE = re.compile(
    r"^\[\d+\][ +-]  (?:Done|Exit|Terminated|Killed|Hangup) .*\n?", re.MULTILINE
)


_REPORT = re.compile(r"([0-9]{0,3}):([A-Za-z0-9%]*):(.*)", re.DOTALL)
_LONGEST_PATH = 4096


class Pipes(NamedTuple):
    """The named pipes that bash opens by path."""

    output: Path
    report: Path


@dataclass(frozen=True)
class ShellReport:
    """What the shell reports at the end of a script; `cwd` is empty if the shell doesn't know
    it."""

    status: int
    flags: str
    cwd: str


def encode_command(command: str) -> bytes:
    """Return the bytes to run. Raises ValueError for a NUL, which no shell can take."""
    if "\0" in command:
        raise ValueError("the command contains a NUL character, which a shell cannot run")
    return replace_surrogates(command).encode() + b"\n"


def start_lines(exports: Mapping[str, str | None]) -> bytes:
    """Return what bash runs first: export the variables, and unset those that are None."""
    return _export_lines(exports) + _START


def take_over_script(cwd: str, exports: Mapping[str, str | None]) -> bytes:
    """Return a script that changes to `cwd`, if it exists, and takes over another shell's
    exports."""
    folder = shlex.quote(cwd).encode("utf-8", "surrogateescape")
    return b"\\builtin cd -- " + folder + b" 2>/dev/null\n" + _export_lines(exports)


def _export_lines(exports: Mapping[str, str | None]) -> bytes:
    given = [shlex.quote(f"{name}={value}") for name, value in exports.items() if value is not None]
    gone = [shlex.quote(name) for name, value in exports.items() if value is None]
    lines = [f"export {' '.join(given)}\n"] if given else []
    lines += [f"unset -v {' '.join(gone)}\n"] if gone else []
    return "".join(lines).encode("utf-8", "surrogateescape")


def run_lines(
    nonce: str,
    script: Path,
    pipes: Pipes,
    *,
    status: int,
    stdin: bool,
    exports: bool,
    in_parts: bool = False,
) -> bytes:
    """Return lines that source `script`, in which `$?` is at first `status`. `stdin`: its commands
    read from and write to the terminal. `exports`: list the exported variables at the end.
    `in_parts`: the script records the statuses of its parts."""
    source = "/dev/tty >/dev/tty 2>&1" if stdin else "/dev/null"
    restore = rf"(\exit {status})&&\:;" if status else ""
    reset = f" {VARIABLE}=" if in_parts else ""
    begin = (
        rf"{{ {_marks('B', nonce, pipes)}"
        rf"_agent_status=130 _agent_reported={reset}; {restore} }} >/dev/null 2>&1"
    )
    line = rf"{begin}; \. {_quote(script)} <{source}; {_report(nonce, pipes, '$?', exports)}"
    return line.encode() + b"\n" + report_lines(nonce, pipes)


def report_lines(nonce: str, pipes: Pipes) -> bytes:
    """Return lines that report unless that was done: after an interrupt, in the end in the way that
    nothing can intercept.

    That last way ends a shell with `set -e`, so it is used only when necessary.
    """
    text = f"{MARK}F{nonce}:$_agent_status:$-%:${{PWD-}}{MARK}"
    again = _report(nonce, pipes, "$_agent_status", exports=True)
    report = _quote(pipes.report)
    unless = "[[ ${_agent_reported-} ]] >/dev/null 2>&1 ||"
    listing = rf"POSIXLY_CORRECT=1; \unset -f printf; \printf {_listing_mark(nonce)}; \export -p"
    return (
        f"{unless} {again}\n"
        f"{unless} ({listing}) 1<>{report} 2>/dev/null\n"
        f"((${{_agent_reported:?{text}}})) 2<>{report} >/dev/null"
    ).encode()


def _report(nonce: str, pipes: Pipes, status: str, exports: bool) -> str:
    """Return the report and the end marks. Only the real printf can set `_agent_reported`."""
    flags = '"$-${PS1:+%}${PROMPT_COMMAND:+%}"'
    listing = (
        rf"\builtin printf {_listing_mark(nonce)}; "
        r"! { \builtin export -p || \builtin declare -px; }; "
    )
    return (
        rf"{{ _agent_status={status}; {{ {listing if exports else ''}"
        rf"\builtin printf '\036R%s:%s:%s:%s\036' {nonce} "
        rf'"$_agent_status" {flags} "${{PWD-}}"; }} 1<>{_quote(pipes.report)}; '
        rf"\builtin printf -v _agent_reported 1; {_marks('E', nonce, pipes)}}} >/dev/null 2>&1"
    )


def _marks(letter: str, nonce: str, pipes: Pipes) -> str:
    mark = rf"\builtin printf '\036{letter}%s\036' {nonce}"
    return f"{mark} >/dev/tty; {mark} 1<>{_quote(pipes.output)}; "


def _listing_mark(nonce: str) -> str:
    return rf"'\036X%s\036' {nonce}"


def end_line(nonce: str, pipes: Pipes) -> bytes:
    """Return a line that writes the end mark after a fallback report, to the pipe only."""
    return f"((${{_agent_reported:?{MARK}E{nonce}{MARK}}})) 2<>{_quote(pipes.output)}".encode()


def parse_report(text: str) -> ShellReport | None:
    """Parse a report; None if it can't be one of ours: commands may have written it."""
    found = _REPORT.fullmatch(text)
    if found is None:
        return None
    status, flags, cwd = found.groups()
    is_path = cwd.startswith("/") and len(cwd) < _LONGEST_PATH
    return ShellReport(int(status or 0) & 0xFF, flags, cwd if is_path else "")


def background_script(
    script: Path, log: Path, status: Path, pid: Path, *, errexit: bool, limit: int
) -> bytes:
    """Return lines that run `script` in a subshell and keep at most `limit` bytes of its output.

    The subshell has its own process group. Its pid is written to `pid`, its exit code to `status`.
    """
    again = r"\set -e;" if errexit else ""
    keep = (
        rf"{{ \command -p dd bs=65536 iflag=count_bytes count={limit} of={_quote(log)} 2>/dev/null"
        rf" || \command -p cat >>{_quote(log)}; \command -p cat >/dev/null; }}"
    )
    job = rf"( {again} \. {_quote(script)} ) </dev/null 2>&1 | {keep}"
    done = rf"""\builtin printf '%s' "${{PIPESTATUS[0]}}" >|{_quote(status)}"""
    return (
        rf"( \set +e +x; {job}; {done} ) >/dev/null 2>&1 &"
        "\n"
        rf"""\builtin printf '%s' "$!" >|{_quote(pid)}; \builtin disown $!"""
        "\n"
    ).encode()


def _quote(path: Path) -> str:
    return shlex.quote(str(path))
