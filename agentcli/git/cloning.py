"""A repository fetched from elsewhere, only to look at its files."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

_LIMIT_S = 300
_URL = re.compile(r"(?:https?|ssh|git|file)://\S+|[\w.-]+@[\w.-]+:\S+", re.ASCII)
_LOGIN = re.compile(r"(https?://)[^/\s]*@", re.IGNORECASE)
SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "protocol.ext.allow": "never",
    "submodule.recurse": "false",
}
"""Nothing that the repository says is run; where it is, and how one logs in there, is the person's
own configuration of git."""


class CloneFailed(Exception):
    """Why, in one line."""


def is_url(source: str) -> bool:
    """Whether git would look for it elsewhere."""
    return _URL.fullmatch(source) is not None


def clone(git: str, url: str, folder: Path, environ: Mapping[str, str], ref: str = "") -> None:
    """The newest files of `ref`, a branch or a tag, else of the branch that is the usual one, in
    `folder`. Raises CloneFailed."""
    settings = [word for item in SETTINGS.items() for word in ("-c", "=".join(item))]
    options = ["--quiet", "--depth=1", "--single-branch", "--no-tags", "--no-recurse-submodules"]
    branch = [f"--branch={ref}"] if ref else []
    command = [git, *settings, "clone", "--template=", *options, *branch, "--", url, str(folder)]
    try:
        done = subprocess.run(
            command,
            env={**environ, "GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=_LIMIT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CloneFailed(str(error)) from error
    if done.returncode != 0:
        raise CloneFailed(why(done.stderr, done.returncode))


def why(said: str, code: int) -> str:
    """Of what git said when it ended with `code`, the line that tells the reason: advice may follow
    it, and what ssh said of it stands before."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    at = next((n for n, line in enumerate(lines) if line.startswith("fatal:")), len(lines) - 1)
    return "; ".join(lines[max(at - 1, 0) : at + 1]) or f"git ended with {code}"


def without_login(url: str) -> str:
    """`url` as it may be shown and kept: without a password or token in it."""
    return _LOGIN.sub(r"\1***@", url)
