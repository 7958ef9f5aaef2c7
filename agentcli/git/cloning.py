"""Fetches a repository from elsewhere, only to look at its files."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentcli.git.running import setting_options

_LIMIT_S = 300
_LONGEST_S = 3600
_URL = re.compile(r"(?:https?|ssh|git|file)://\S+|[\w.-]+@[\w.-]+:\S+", re.ASCII)
_LOGIN = re.compile(r"(https?://)[^/\s]*@", re.IGNORECASE)
SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "protocol.ext.allow": "never",
    "submodule.recurse": "false",
}
"""Settings that keep git from running anything the repository names. Where the repository is and
how to log in come from the user's own git configuration."""


class CloneFailed(Exception):
    """The message is the reason, in one line."""


def is_url(source: str) -> bool:
    """Return whether git would fetch from `source` instead of a local path."""
    return _URL.fullmatch(source) is not None


def clone(git: str, url: str, folder: Path, environ: Mapping[str, str], ref: str) -> None:
    """Clone the newest files of `ref`, a branch or tag, into `folder`; if `ref` is empty, those of
    the default branch. Raises CloneFailed."""
    settings = setting_options(SETTINGS)
    options = ["--quiet", "--depth=1", "--single-branch", "--no-tags", "--no-recurse-submodules"]
    branch = [f"--branch={ref}"] if ref else []
    words = [git, *settings, "clone", "--template=", *options, *branch, "--", url, str(folder)]
    here = {**environ, "GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1"}
    run_git(words, here, limit_s=_LIMIT_S)


def run_git(
    words: Sequence[str],
    environ: Mapping[str, str],
    *,
    ok: int = 0,
    given: bytes = b"",
    limit_s: float = _LONGEST_S,
) -> bytes:
    """Run a command with `given` as stdin and return what it prints. Raises CloneFailed if it ends
    with an exit code other than 0 and `ok`, or takes longer than `limit_s`."""
    try:
        done = subprocess.run(
            words, env=environ, cwd="/", input=given, capture_output=True, timeout=limit_s
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CloneFailed(str(error)) from error
    if done.returncode not in (0, ok):
        raise CloneFailed(_reason(done.stderr.decode(errors="replace"), done.returncode))
    return done.stdout


def _reason(said: str, code: int) -> str:
    """Return the line that tells the reason from what git said when it ended with `code`. Advice
    may follow that line; the line before it is included, because ssh may explain there."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    at = next((n for n, line in enumerate(lines) if line.startswith("fatal:")), len(lines) - 1)
    return "; ".join(lines[max(at - 1, 0) : at + 1]) or f"git ended with {code}"


def without_login(url: str) -> str:
    """Return `url` fit to be shown and stored: without a password or token."""
    return _LOGIN.sub(r"\1***@", url)
