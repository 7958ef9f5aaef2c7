"""Hints for the model about the sandbox, shown with a command's output."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentcli.files.access_scope import AccessScope
from agentcli.sandbox.selection import Sandbox

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
    r"\b(?:mode|permissions|file attributes)\b.*not permitted|\bf?chmod\b",
    re.IGNORECASE,
)
_TOLD_BY_WATCH = "could not write config file"
"""What git says when it may not write a setting; the watch over git folders says which."""


def refused_by_sandbox(
    output: str, exit_code: int | None, sandbox: Sandbox | None, *, from_python: bool = False
) -> str:
    """Return a hint for the model if a command failed in a way that suggests that the sandbox
    refused something, else "". `from_python`: the output is from the python tool, which can't ask
    for more."""
    if sandbox is None or not sandbox.contains or not exit_code or exit_code >= 128:
        return ""
    end = output[-4000:]
    if not sandbox.network and _NETWORK_FAILURES.search(end):
        return (
            "the sandbox has no network; if the command needs it, "
            f"{_again(from_python)} with network: true and a reason"
        )
    if sandbox.own_loopback and (port := _refused_port(end)) not in (None, *sandbox.host_ports):
        return (
            "127.0.0.1 is the sandbox's own, so only what you start is there. If a service of the "
            f"user's is meant, they can open it with --allow 'network(127.0.0.1:{port})'"
        )
    refused = [
        line
        for line in end.splitlines()
        if _RIGHTS_FAILURES.search(line) and _TOLD_BY_WATCH not in line
    ]
    if refused and sandbox.out_of_reach:
        return (
            f"{', '.join(map(str, sandbox.out_of_reach))} belongs to another user, and commands in "
            "the sandbox have none of root's powers; the file tools can write there, or "
            f"{_again(from_python)} with unsandboxed: true and a reason"
        )
    if any(_MODE_FAILURES.search(line) for line in refused):
        return (
            "the sandbox refuses modes with a set-user-ID or set-group-ID bit (u+s, 4755); if it "
            f"was one, leave the bit out, or {_again(from_python)} with unsandboxed: true and a "
            "reason"
        )
    if sandbox.once and any("socket" in line.lower() for line in refused):
        return (
            "a command that was given network can make no Unix sockets; if it needs them, "
            f"{_again(from_python)} with unsandboxed: true and a reason"
        )
    rights = sandbox.layer != "bubblewrap" and refused
    if rights or _FILE_FAILURES.search(end) or _names_hidden(refused, sandbox.scope):
        scope = sandbox.scope
        whole = any(map(scope.workspace.is_relative_to, scope.writable))
        places = "the workspace" if whole else "the folders that the user named"
        return (
            f"the sandbox lets commands write only in {places} and /tmp, and hides secrets; "
            f"if the command needs more, {_again(from_python)} with unsandboxed: true and a reason"
        )
    return ""


def _refused_port(output: str) -> int | None:
    """Return the loopback port that refused a connection, if a program reported one."""
    for line in output.splitlines():
        if _REFUSED.search(line) and (found := _LOOPBACK_PORT.search(line)):
            return int(found[1])
    return None


def _again(from_python: bool) -> str:
    return "do it in bash" if from_python else "repeat it"


def _names_hidden(lines: Sequence[str], scope: AccessScope) -> bool:
    """Return whether an error of permissions mentions a place that the scope closes."""
    closed = [*scope.hidden, *scope.protected]
    return any(str(path) in line for line in lines for path in closed)


class WithheldEnvironment:
    """Parts of the user's environment, by variable, that commands outside the sandbox don't get,
    because commands inside can write to the places they name."""

    def __init__(self, parts: Mapping[str, Sequence[str]]) -> None:
        self._parts = parts
        self._told = False

    def notes(self, command: str) -> list[str]:
        """Return notes about this: once, and again if a command names a program found only
        there."""
        words = set(_WORD.findall(command))
        folders = [Path(folder) for folder in self._parts.get("PATH", ()) if folder]
        missed = [f for f in folders if any(os.access(f / word, os.X_OK) for word in words)]
        if self._told and not missed:
            return []
        self._told = True
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
