"""Decides what may be read and written: by the access scope and the user's rules, and never devices
or processes."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import stat
import time
from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Literal

from agentcli.errors import ToolError
from agentcli.workspace.names import display_path
from agentcli.workspace.private import read_private
from agentcli.workspace.scope import AccessScope

_NAMES = re.compile(
    r"(?:id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?"
    r"|.*\.(?:kdbx?|ppk|p12|pfx|jks|keystore|keychain-db|agekey|env|tfstate)"
    r"|wallet\.dat|\.env(?:\.(?!example$|sample$|template$|dist$|defaults?$).*|rc)?"
    r"|\.(?:netrc|pgpass|htpasswd|.*_history)"
    r"|(?:.*[._-])?(?:credentials?|secrets?|passwords?|api[_-]?keys?|(?:access|auth)[_-]?tokens?)"
    r"(?:\.(?:json|ya?ml|toml|ini|cfg|conf|txt|csv|env|xml|properties|db|sqlite3?))?)"
    r"(?:\.(?:bak|backup|old|orig|save|\d+)|~)?",
    re.IGNORECASE,
)
_START_FILES = frozenset(
    (
        *(".bashrc", ".bash_profile", ".bash_login", ".profile", ".bash_aliases", ".bash_logout"),
        *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".kshrc", ".cshrc", ".tcshrc", ".login"),
        *(".xonshrc", ".xprofile", ".xsessionrc", ".config/zsh/.zshrc", ".config/xonsh/rc.xsh"),
        *(".config/fish/config.fish", ".config/nushell/env.nu", ".config/nushell/config.nu"),
    )
)
"""Files of a home in which people export keys."""
_SOURCES = frozenset(
    (
        *(".c", ".cc", ".cpp", ".cs", ".css", ".go", ".h", ".hpp", ".html", ".java", ".js", ".jsx"),
        *(".kt", ".lua", ".mjs", ".php", ".pl", ".py", ".pyi", ".rb", ".rs", ".scala", ".swift"),
        *(".svg", ".ts", ".tsx", ".vue"),
    )
)
"""Not searched for keys: most files of a tree are such, and what they hold is published."""
_LARGEST_KEY = 100_000
_HEAD = 4_096
"""Bytes of a file in which a key is looked for."""
_KEY = re.compile(
    rb"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY|PuTTY-User-Key-File|AGE-SECRET-KEY-1"
    rb'|"private_key(?:_id)?"\s*:|\A\x03\xd9\xa2\x9a'
)
_INSTALLED = re.compile(
    r"/(?:usr|lib\w*|s?bin|nix/store|snap|System|Library|opt/homebrew)/"
    r"|.*/(?:site-packages|dist-packages|node_modules|\.cargo/registry|go/pkg/mod)/",
    re.DOTALL,
)
"""What is installed is published, whatever its name."""
_HOMES = re.compile(r"/(?:home|Users)/[^/]+/|/root/")
_OTHERS = 0o077


def looks_secret(path: str, home: Path) -> str:
    """Return why the file at a resolved path looks like a secret, as a clause that begins with
    "it"; "" if it does not."""
    if _INSTALLED.match(path):
        return ""
    file = Path(path)
    with contextlib.suppress(OSError, ValueError):
        info = file.lstat()
        if not stat.S_ISREG(info.st_mode):
            return ""
        at_home = path.startswith(f"{home}/")
        if at_home and path.removeprefix(f"{home}/") in _START_FILES:
            return "it is a file in which people export keys"
        if _NAMES.fullmatch(file.name):
            return "it has the name of a secret"
        private = not info.st_mode & _OTHERS and not _makes_private_files()
        if private and (at_home or _HOMES.match(path)):
            return "it is in a home, and nobody else may read it"
        if file.suffix.lower() not in _SOURCES and info.st_size <= _LARGEST_KEY:
            head = read_private(file, _HEAD) or b""
            # Without NULs, UTF-16 is searched too.
            return "it holds a key" if _KEY.search(head.replace(b"\0", b"")) else ""
    return ""


@functools.cache
def _makes_private_files() -> bool:
    """Return whether new files of this user are private anyway, so that it says nothing."""
    before = os.umask(0o077)
    os.umask(before)
    return before & 0o044 == 0o044


@dataclass(frozen=True)
class ReadingRule:
    """A rule of the user about files for `tool` ("": whatever reads). `matches` takes a resolved
    path; `told` names the rule."""

    decision: Literal["allow", "ask", "deny"]
    tool: str
    matches: Callable[[str], bool]
    told: str


@dataclass(frozen=True)
class ReadingRules:
    """The user's rules about files."""

    rules: Sequence[ReadingRule] = ()
    asks: bool = True
    """Whether anything is asked about; nothing is in `yolo` mode."""
    scope: AccessScope | None = None
    """What was given to the session; a file elsewhere that looks like a secret is asked about."""

    def objection(self, path: str, tool: str = "", *, unasked: bool = False) -> str:
        """Return what keeps `tool` from the file at the resolved `path`; "" if nothing does. With
        `unasked`, what must be asked about is kept from it like what a rule denies."""
        if told := self._told("deny", path, tool):
            return f"{told} denies it"
        if not unasked or not self.asks:
            return ""
        if told := self._told("ask", path, tool):
            return f"{told} asks for it"
        if self.scope is None or self.scope.is_given(Path(path)) or self._told("allow", path, tool):
            return ""
        return looks_secret(path, self.scope.home)

    def may_object_below(self, top: Path) -> bool:
        """Return whether any file below the resolved folder `top` may be kept from being read."""
        if any(rule.decision != "allow" for rule in self.rules):
            return True
        return self.asks and self.scope is not None and not self.scope.is_given(top)

    def _told(self, decision: str, path: str, tool: str) -> str:
        """Return the first rule with this decision about the file, in words; "" if none is."""
        about = (r for r in self.rules if r.decision == decision and r.tool in ("", tool))
        return next((rule.told for rule in about if rule.matches(path)), "")


_OF_THE_SYSTEM = re.compile(r"/dev(?:/.*)?|/proc/(?:\d+|self|thread-self|kcore|kmsg)(?:/.*)?", re.S)
"""Devices, and the memory, environment and view of processes; matches lexical and resolved
paths."""
_NEVER_SEARCHED = (Path("/dev"), Path("/proc"))
_LARGEST_SCAN = 10_000
"""How many hidden files are compared with a file that has several hard links."""
CLOCK_SLACK_NS = 1_000_000_000
"""File systems stamp changes with a clock that may be this far behind ours."""


class Guard:
    """Judges resolved paths. Without a scope and `rules`, only devices and processes are off
    limits."""

    def __init__(self, scope: AccessScope | None) -> None:
        self.rules: Callable[[], ReadingRules] = ReadingRules
        self._scope = scope
        self._permitted: frozenset[Path] = frozenset()
        self._hidden_files: frozenset[tuple[int, int]] = frozenset()
        self._scanned_ns = 0
        self._scanning = Lock()

    @contextlib.contextmanager
    def permitting(self, target: Path) -> Iterator[None]:
        """Allow this one resolved path to be read and written although the scope forbids it."""
        before, self._permitted = self._permitted, self._permitted | {target}
        try:
            yield
        finally:
            self._permitted = before

    def may_read(self, target: Path) -> bool:
        return self._is_in_reach(target) and not self._objection(target)

    def _is_in_reach(self, target: Path) -> bool:
        if _OF_THE_SYSTEM.fullmatch(str(target)):
            return False
        scope = self._scope
        return scope is None or target in self._permitted or scope.may_read(target)

    def _objection(self, target: Path) -> str:
        """Return why the rules forbid to read a file that exists; a new one may be written."""
        why = self.rules().objection(str(target))
        return why if why and os.path.lexists(target) else ""

    def why_unreadable(self, target: Path) -> str:
        """Return why a resolved path may not be read unasked, in words that follow its name; "" if
        it may be, or does not exist."""
        if not self._is_in_reach(target):
            return "is hidden from the session"
        with contextlib.suppress(OSError):
            if self.is_hidden(target.stat()):
                return "is a hard link to a file that may not be read"
            why = self.rules().objection(str(target), unasked=True)
            return f"may not be read: {why}" if why else ""
        return ""

    def unseen_below(self, top: Path, tool: str = "", *, unasked: bool = False) -> Container[str]:
        """Return what a walk by `tool` below the resolved folder `top` must not see: hidden paths
        and what rules deny. With `unasked`, also what must be asked about, as nobody is asked about
        each file of a search, unless that is about all of `top`, which the user has then been
        asked about. A walk that avoids these need not check each file."""
        hidden = (*_NEVER_SEARCHED, *(self._scope.hidden if self._scope else ()))
        below = frozenset(str(path) for path in hidden if path.is_relative_to(top))
        rules = self.rules()
        if not rules.may_object_below(top):
            return below
        unasked = unasked and not rules.objection(str(top), tool, unasked=True)
        return _Unseen(below, rules, tool, unasked)

    def judge_reading(self, target: Path) -> None:
        """Raise ToolError if the resolved `target` is hidden, belongs to the system or is denied
        by a rule."""
        self.judge_name(target)
        if not self._is_in_reach(target):
            if self._scope is not None and self._scope.is_elsewhere(target):
                raise ToolError(
                    f"{display_path(target)} may not be read: only the workspace and what is "
                    "installed may be, as the setting sandbox.read says.",
                    error_id="hidden_path",
                )
            raise ToolError(
                f"{display_path(target)} may not be read: keys and passwords are kept there, or "
                "agent's own files. Go on without it, or ask the user for what you need of it.",
                error_id="hidden_path",
            )
        if why := self._objection(target):
            raise ToolError(
                f"{display_path(target)} may not be read: {why}. Go on without it.",
                error_id="hidden_path",
            )

    def judge_name(self, path: Path) -> None:
        """Raise ToolError if a path names a device or a process, whatever it leads to."""
        if _OF_THE_SYSTEM.fullmatch(os.path.normpath(path)):
            raise ToolError(
                f"{display_path(path)} is a device or process file, which the file tools can't "
                "open. Use a command if that is allowed.",
                error_id="not_a_file",
            )

    def judge_writing(self, target: Path) -> None:
        """Raise ToolError if `target` may not be written."""
        self.judge_name(target)
        scope = self._scope
        if scope is None or scope.may_write(target):
            return
        if target in self._permitted and not any(map(target.is_relative_to, scope.agent_files)):
            return
        if scope.is_protected(target):
            raise ToolError(
                f"{display_path(target)} may not be written: git or agent decides from it what "
                "to run. Tell the user what to change in it.",
                error_id="outside_workspace",
            )
        folders = ", ".join(map(display_path, scope.writable))
        raise ToolError(
            f"{display_path(target)} is outside the folders that may be written: {folders}.",
            error_id="outside_workspace",
        )

    def judge_inode(self, info: os.stat_result, shown: str) -> None:
        """Raise ToolError if the file is a hard link to a hidden file."""
        if self.is_hidden(info):
            raise ToolError(
                f"{shown} is a hard link to a file that may not be read.", error_id="hidden_path"
            )

    def is_hidden(self, info: os.stat_result) -> bool:
        """Return whether this is a hidden file, whatever name it was reached by."""
        if info.st_nlink < 2 or self._scope is None or not self._scope.hidden:
            return False
        # Read-only tools run concurrently.
        with self._scanning:
            # A link made since the last scan has changed the file's ctime.
            if info.st_ctime_ns >= self._scanned_ns - CLOCK_SLACK_NS:
                self._scanned_ns = time.time_ns()
                self._hidden_files = frozenset(_linked_files(self._scope.hidden))
        return (info.st_dev, info.st_ino) in self._hidden_files


@dataclass(frozen=True, slots=True)
class _Unseen:
    """Paths that a search does not see: `hidden` ones, and those that the rules keep from it."""

    hidden: frozenset[str]
    rules: ReadingRules
    tool: str
    unasked: bool

    def __contains__(self, path: object) -> bool:
        if path in self.hidden:
            return True
        return bool(self.rules.objection(str(path), self.tool, unasked=self.unasked))


def _linked_files(hidden: tuple[Path, ...]) -> Iterator[tuple[int, int]]:
    """Yield device and inode of the hidden files that have several names, within the scan limit.
    Goes breadth-first, so that one place with many files can't use up the limit for all others."""
    left = _LARGEST_SCAN
    waiting = deque(hidden)
    while waiting and left > 0:
        path = waiting.popleft()
        # If it is missing or not accessible to us, we could not have read it either.
        with contextlib.suppress(OSError):
            info = path.lstat()
            left -= 1
            if stat.S_ISDIR(info.st_mode):
                with os.scandir(path) as entries:
                    waiting += [Path(entry.path) for entry in islice(entries, left)]
            elif stat.S_ISREG(info.st_mode) and info.st_nlink > 1:
                yield info.st_dev, info.st_ino
