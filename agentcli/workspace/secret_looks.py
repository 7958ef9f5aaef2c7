"""Tells which files look like a secret that no list of places knows: by name, mode or content."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import stat
from pathlib import Path

from agentcli.workspace.private import read_private

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
