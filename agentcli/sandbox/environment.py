"""The environment of commands: the user's variables that tools use and that hold no secret."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from agentcli.security.redact import is_secret


def read_words(name: str) -> list[str]:
    """Return the words of `name`.txt. `\\040` in a word means a space; `#` begins a comment."""
    text = Path(__file__).with_name(f"{name}.txt").read_text(encoding="utf-8")
    words = (word for line in text.splitlines() for word in line.partition("#")[0].split())
    return [word.replace("\\040", " ") for word in words]


_QUIET = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "EDITOR": "true",
    "VISUAL": "true",
    "GIT_EDITOR": "true",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "PYTHONUNBUFFERED": "1",
    # A bare repository inside a clone may name programs for `git status` to run.
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.bareRepository",
    "GIT_CONFIG_VALUE_0": "explicit",
}

_OUTSIDE = """
    SSH_AUTH_SOCK SSH_AGENT_PID DBUS_* DOCKER_HOST DOCKER_CONTEXT CONTAINER_HOST TMUX TMUX_PANE
    STY DISPLAY WAYLAND_DISPLAY XAUTHORITY XDG_RUNTIME_DIR XDG_SESSION_* GPG_AGENT_INFO GPG_TTY
    KUBECONFIG AWS_PROFILE AWS_REGION AWS_DEFAULT_REGION AWS_CONFIG_FILE
"""
"""Variables that lead to daemons and accounts; a sandbox closes these, so programs should not try
them."""

_CACHES = {
    "XDG_CACHE_HOME": "",
    "PIP_CACHE_DIR": "pip",
    "UV_CACHE_DIR": "uv",
    "npm_config_cache": "npm",
    "YARN_CACHE_FOLDER": "yarn",
    "GOCACHE": "go-build",
    "MPLCONFIGDIR": "matplotlib",
}
_KEPT_CACHES = (
    *("pre-commit", "ms-playwright", "Cypress", "puppeteer", "huggingface", "torch", "pypoetry"),
    *("bazelisk", "electron", "node-gyp", "virtualenv", "org.swift.swiftpm", "selenium"),
)
"""Folders in ~/.cache with installed things that are not recreated on demand, so commands keep
them."""


def command_environment(
    environ: Mapping[str, str],
    secret_names: Collection[str],
    session_id: str,
    *,
    contained: bool = False,
    extra: Collection[str] = (),
) -> dict[str, str]:
    """Return the part of `environ` that tools use and that does not look secret, set up so that
    nothing waits for a user. `contained`: it is for a sandbox, so leave out variables that lead
    to what that closes.

    `extra` are names, or prefixes like NAME_*, that the user added. A name written in full is
    passed on even if it looks secret, unless it is in `secret_names`.
    """
    patterns = [*read_words("usual_variables"), *extra, *([] if contained else _OUTSIDE.split())]
    names = {pattern for pattern in patterns if not pattern.endswith("*")}
    prefixes = tuple(pattern[:-1] for pattern in patterns if pattern.endswith("*"))
    kept = {
        name: value
        for name, value in environ.items()
        if (name in names or name.startswith(prefixes))
        and name not in secret_names
        and (name in extra or not is_secret(name, value))
    }
    return {**kept, **_QUIET, "AGENT": "1", "AGENT_SESSION_ID": session_id}


def session_caches(tmp: str, real_tmp: Path, home: Path) -> dict[str, str]:
    """Return variables that make tools keep temporary files and downloads in the session's folder,
    and create its folder for caches. `tmp` is the folder's path for commands, `real_tmp` its real
    one.

    Go and cargo still read the user's modules, which they can't fetch again without a network.
    """
    caches = real_tmp / ".cache"
    if not caches.is_dir():
        caches.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in _KEPT_CACHES:
            if os.access(home / ".cache" / name, os.R_OK | os.X_OK):
                (caches / name).symlink_to(home / ".cache" / name)
    found = {name: f"{tmp}/.cache/{folder}".rstrip("/") for name, folder in _CACHES.items()}
    return {"TMPDIR": tmp, **found}
