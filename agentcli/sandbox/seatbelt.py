"""The layer "seatbelt": a profile for sandbox-exec on macOS."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from agentcli.workspace.scope import AccessScope

_HEAD = """\
(version 1)
(allow default)
(deny file-write*)
(deny mach-lookup
  (global-name "com.apple.securityd")
  (global-name "com.apple.SecurityServer")
  (global-name "com.apple.pasteboard.1")
  (global-name "com.apple.coreservices.launchservicesd"))
(deny signal)
(allow signal (target same-sandbox))
(deny process-info*)
(allow process-info* (target same-sandbox))
(deny appleevent-send)
(deny job-creation)
"""
_DEVICES = """\
(allow file-write-data file-ioctl
  (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (literal "/dev/ptmx")
  (regex #"^/dev/ttys[0-9]+$") (regex #"^/dev/fd/[0-9]+$"))
"""
_NO_NETWORK = """\
(deny network*)
(allow network* (local ip "localhost:*"))
(allow network-outbound (remote ip "localhost:*"))
(allow network-bind (local ip "localhost:*"))
"""


def seatbelt_profile(scope: AccessScope, *, network: bool, folders: Sequence[Path] = ()) -> str:
    """Return the profile. The last matching rule counts, so what is hidden and protected comes
    after what is allowed, and exceptions come last. `folders` are writable too."""
    # Rules apply to names, so a missing file is protected as well.
    parts = [
        _HEAD,
        _rule("deny", "file-read-data", scope.masked),
        _rule(
            "allow",
            "file-read*",
            [*scope.confined_to, *scope.writable] if scope.confined_to else (),
        ),
        _rule("allow", "file-write*", () if scope.sealed else scope.writable),
        _DEVICES,
        _rule("deny", "file-write*", [*scope.protected, *scope.agent_files]),
        _moves(scope.protected),
        _rule("deny", "file-read* file-write*", scope.hidden),
        _rule("allow", "file-read*", scope.readable),
        _rule("allow", "file-read* file-write*", [*scope.mounts.values(), *folders]),
        "" if network else _NO_NETWORK,
    ]
    return "".join(parts)


def _rule(verdict: str, operations: str, paths: Iterable[Path]) -> str:
    filters = [f"  (subpath {_quoted(path)})" for path in paths]
    return "\n".join([f"({verdict} {operations}", *filters]) + ")\n" if filters else ""


def _moves(protected: Iterable[Path]) -> str:
    """Keep folders that hold something protected from being moved away."""
    filters = [f"  (literal {_quoted(folder)})" for folder in {path.parent for path in protected}]
    return "\n".join(["(deny file-write-unlink", *sorted(filters)]) + ")\n" if filters else ""


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
