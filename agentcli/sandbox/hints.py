"""Hints for the model about the sandbox, shown with a command's output."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from agentcli.sandbox.selection import BUBBLEWRAP, Sandbox
from agentcli.workspace.scope import TMP

_NETWORK_FAILURES = re.compile(
    r"[Cc]ould(?:n't| not) resolve (?:host|proxy)|unable to resolve host address"
    r"|(?:failure in name resolution|failure resolving) ?|Name or service not known"
    r"|nodename nor servname provided|failed to lookup address information"
    r"|\b(?:getaddrinfo|code|errno:?) '?(?:ENOTFOUND|EAI_AGAIN|ENETUNREACH)"
    r"|dial (?:tcp|udp): lookup \S+|\bNetwork is unreachable\b|UnknownHostException: \S"
)
"""What programs say when a name can't be resolved or a network can't be reached. Names of functions
and classes are left out, because they appear in many tracebacks."""
_REFUSED = re.compile(r"[Cc]onnection refused|ECONNREFUSED|Couldn't connect to server")
_LOOPBACK_PORT = re.compile(
    r"(?:localhost|127\.0\.0\.1|::1)[\]\"']?(?:(?: \(.{1,20}\))?,? port |:)(\d{1,5})"
)
_FILE_FAILURES = re.compile(
    r"Read-only file system|EROFS|\[Errno 30\]|(?:Device or resource busy|EBUSY).*\.git"
    r"|Could not open a connection to your authentication agent"
    r"|Cannot connect to the Docker daemon|no new privileges",
    re.IGNORECASE,
)
_WORD = re.compile(r"[\w.+-]+")
_RIGHTS_FAILURES = re.compile(
    r"Permission denied|Operation not permitted|EACCES|EPERM|\[Errno 13\]|\[Errno 1\]"
)
_MODE_FAILURES = re.compile(
    r"\b(?:mode|permissions|file attributes)\b.*not permitted|\bf?chmod\b", re.IGNORECASE
)
_REPORTED_BY_WATCH = "could not write config file"
"""What git says when it may not write a setting; the watch over git folders says which."""
_SOCKET_FAILURES = re.compile(
    r"\bsocket\b|listen E(?:PERM|ACCES)|connect(?:ing)? to .*not permitted", re.IGNORECASE
)
_TERMINAL_FAILURES = re.compile(
    r"pseudo-?(?:terminal|tty)|out of pty devices|no more ptys|openpty|forkpty|/dev/pts",
    re.IGNORECASE,
)
_DEVICE = re.compile(r"(/dev/(?!pts\b|tty\b|null\b|std)[\w/-]+).*(?:No such file|denied|permitted)")
_NEW_PLACE = re.compile(r"could not create (?:leading directories of|work tree dir) '")
_SAID_BY_PROGRAM = re.compile(r"\s*(?:npm (?:error|ERR!) |Cannot open netlink|[\w.+/@-]{1,60}: )")
"""How a line begins by which a program reports an error, though the command ended well."""
_NETLINK = re.compile(r"netlink|uv_interface_addresses", re.IGNORECASE)
_OF_PROGRAMS = {
    _NETLINK: (
        "netlink sockets are refused in the sandbox, so ip, ss and whatever lists network "
        "interfaces fail; /proc/net/tcp, tcp6, udp and dev tell the same"
    ),
    re.compile(r"perf_event|No permission to enable .* event"): (
        "performance counters are refused in the sandbox, so perf fails; profilers that need none "
        "work (gprof, valgrind --tool=callgrind, python -m cProfile)"
    ),
    re.compile(
        r"No usable sandbox|Failed to move to new namespace|without --no-sandbox|SUID sandbox"
        r"|user data directory|ProcessSingleton"
    ): (
        "a browser can't make a sandbox of its own in this one, and needs none: start it with "
        "--headless --no-sandbox --user-data-dir=$TMPDIR/browser"
    ),
    re.compile(
        r"unshare.*not permitted|creat\w+ (?:a )?new namespace|cannot clone: Operation"
        r"|newuidmap|rootless"
    ): (
        "commands can make no namespaces, so containers and sandboxes of other programs don't "
        "start here; turn theirs off if they can do without"
    ),
}
"""What programs say that fail only because of the sandbox, and why."""


@dataclass(frozen=True)
class _Failure:
    """The end of what a failed command said, and its `refused` lines, about rights. `again`: how
    the model can ask for more."""

    output: str
    refused: Sequence[str]
    sandbox: Sandbox
    again: str

    @property
    def outside(self) -> str:
        return f"{self.again} with unsandboxed: true and a reason"


def refused_by_sandbox(
    output: str,
    exit_code: int | None,
    sandbox: Sandbox | None,
    *,
    command: str = "",
    from_python: bool = False,
) -> str:
    """Return a hint for the model if a command failed in a way that suggests that the sandbox
    refused something, else "". A part of `command` may have failed though its end did not.
    `from_python`: the output is from the python tool, which can't ask for more."""
    # Programs have codes from 128 on too: git ends with 128, ssh with 255.
    is_signal = exit_code is not None and exit_code - 128 in signal.valid_signals()
    if sandbox is None or not sandbox.contains or exit_code is None or is_signal:
        return ""
    end = output[-4000:]
    if exit_code == 0:
        end = "\n".join(filter(_SAID_BY_PROGRAM.match, end.splitlines()))
    refused = [
        line
        for line in end.splitlines()
        if _RIGHTS_FAILURES.search(line) and _REPORTED_BY_WATCH not in line
    ]
    failure = _Failure(end, refused, sandbox, "do it in bash" if from_python else "repeat it")
    if exit_code:
        return next(chain(_sure(failure), _likely(failure)), "")
    hint = next(_sure(failure), "")
    if hint:
        from agentcli.security.commands.known_commands import is_read_only

        # The output may be what a file says.
        return hint if command and not is_read_only(command) else ""
    return ""


def _sure(failure: _Failure) -> Iterator[str]:
    """Yield hints about what certainly was refused, the surest first."""
    if not failure.sandbox.network and _NETWORK_FAILURES.search(failure.output):
        yield (
            "the sandbox has no network; if the command needs it, "
            f"{failure.again} with network: true and a reason"
        )
    for pattern, why in _OF_PROGRAMS.items():
        if pattern.search(failure.output):
            yield f"{why}, or {failure.outside}"


def _likely(failure: _Failure) -> Iterator[str]:
    """Yield hints about what may have been refused, the surest first."""
    sandbox, output, outside = failure.sandbox, failure.output, failure.outside
    port = _refused_port(output) if sandbox.own_loopback else None
    if port is not None and port not in sandbox.host_ports:
        yield (
            "127.0.0.1 is the sandbox's own, so only what you start is there. If a service of the "
            f"user's is meant, they can open it with --allow 'network(127.0.0.1:{port})'"
        )
    if failure.refused and (closed := sandbox.out_of_reach):
        yield (
            f"{', '.join(map(str, closed))} belongs to another user, and commands in the sandbox "
            f"have none of root's powers; the file tools can write there, or {outside}"
        )
    if any(map(_MODE_FAILURES.search, failure.refused)):
        yield (
            "the sandbox refuses modes with a set-user-ID or set-group-ID bit (u+s, 4755); if it "
            f"was one, leave the bit out, or {outside}"
        )
    is_bare = sandbox.layer == "landlock" and not sandbox.namespaces
    if failure.refused and _SOCKET_FAILURES.search(output):
        yield from _socket(failure, is_bare=is_bare)
    if is_bare and _TERMINAL_FAILURES.search(output):
        yield (
            "programs can't open terminals of their own in this sandbox, as script, expect and "
            f"pseudo-terminals of tests do; do without, or {outside}"
        )
    if (device := _DEVICE.search(output)) and os.path.lexists(device[1]):
        yield f"devices such as {device[1]} are not in the sandbox; do without, or {outside}"
    if _NEW_PLACE.search(output):
        places = _writable(sandbox)
        yield f"new folders can be made only in {places}: name one there, or {outside}"
    yield from _files(failure)


def _socket(failure: _Failure, *, is_bare: bool) -> Iterator[str]:
    if failure.sandbox.once:
        yield (
            "a command that was given network can make no Unix sockets; if it needs them, "
            f"{failure.outside}"
        )
    elif is_bare and not failure.sandbox.network:
        yield (
            "no network sockets here, not even on 127.0.0.1, since this system gives the sandbox "
            "no loopback of its own: use a Unix socket in $TMPDIR, or "
            f"{failure.again} with network: true and a reason"
        )


def _files(failure: _Failure) -> Iterator[str]:
    sandbox = failure.sandbox
    rights = sandbox.layer != BUBBLEWRAP and failure.refused
    closed = [str(path) for path in (*sandbox.scope.hidden, *sandbox.scope.protected)]
    names_closed = any(path in line for line in failure.refused for path in closed)
    if rights or names_closed or _FILE_FAILURES.search(failure.output):
        yield (
            f"the sandbox lets commands write only in {_writable(sandbox)}, and hides secrets; "
            f"if the command needs more, {failure.outside}"
        )


def _writable(sandbox: Sandbox) -> str:
    scope = sandbox.scope
    whole = any(map(scope.workspace.is_relative_to, scope.writable))
    places = "the workspace" if whole else "the folders that the user named"
    return f"{places} and {'/tmp' if sandbox.session_tmp or TMP in scope.writable else '$TMPDIR'}"


def _refused_port(output: str) -> int | None:
    """Return the loopback port that refused a connection, if a program reported one."""
    for line in output.splitlines():
        if _REFUSED.search(line) and (found := _LOOPBACK_PORT.search(line)):
            return int(found[1])
    return None


class WithheldEnvironment:
    """Parts of the user's environment, by variable, that commands outside the sandbox don't get,
    because commands inside can write to the places they name."""

    def __init__(self, parts: Mapping[str, Sequence[str]]) -> None:
        self._parts = parts
        self._reported = False

    def notes(self, command: str) -> list[str]:
        """Return notes about this: once, and again if a command names a program found only
        there."""
        words = set(_WORD.findall(command))
        folders = [Path(folder) for folder in self._parts.get("PATH", ()) if folder]
        missed = [f for f in folders if any(os.access(f / word, os.X_OK) for word in words)]
        if self._reported and not missed:
            return []
        self._reported = True
        parts = (f"{name} ({', '.join(values)})" for name, values in self._parts.items())
        return [
            "left out of the environment of commands outside the sandbox, as those inside can "
            f"write there: {'; '.join(parts)}. Name programs there by their whole path"
        ] * bool(self._parts)


def differences(withheld: Sequence[str], inside: Sandbox, command: str) -> list[str]:
    """Return notes for a command that runs outside about what differs from `inside`."""
    notes = []
    if withheld:
        notes.append(
            f"not passed on to an unsandboxed command: {', '.join(withheld)}; "
            "set in the command itself what it needs of them"
        )
    for place, source in inside.scope.mounts.items():
        if inside.real_path(str(place)) != place and f"{place}/" in command:
            notes.append(f"outside the sandbox, {place} is another folder; yours is {source}")
    return notes
