"""Fetches repositories from elsewhere, and keeps copies and their history apart.

Nothing that a repository names is run: no hook, filter or monitor. Only a mirror or clone is
fetched under the user's own git configuration, which says how to log in."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from agentcli.git.safe import ENVIRONMENT, command, format_settings, setting_options

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
        lines = done.stderr.decode(errors="replace").splitlines()
        lines = [line.strip() for line in lines if line.strip()]
        # Advice may follow the line that tells the reason, and ssh may explain in the one before.
        at = next((n for n, line in enumerate(lines) if line.startswith("fatal:")), len(lines) - 1)
        reason = "; ".join(lines[max(at - 1, 0) : at + 1])
        raise CloneFailed(reason or f"git ended with {done.returncode}")
    return done.stdout


def without_login(url: str) -> str:
    """Return `url` fit to be shown and stored: without a password or token."""
    return _LOGIN.sub(r"\1***@", url)


_BRANCH = "work"
_IDENTITY = {
    "GIT_AUTHOR_NAME": "agent",
    "GIT_AUTHOR_EMAIL": "agent@localhost",
    "GIT_COMMITTER_NAME": "agent",
    "GIT_COMMITTER_EMAIL": "agent@localhost",
}
_PART = re.compile(rb"^diff --git ", re.MULTILINE)
"""Where each file begins in a patch; no other line starts like this."""
_LOCAL = {"GIT_ALLOW_PROTOCOL": "file"}


def mirror(git: str, source: str, folder: Path, environ: Mapping[str, str]) -> None:
    """Mirror the whole repository at `source`, a folder or an address, in the git folder `folder`.
    An existing mirror is updated. Raises CloneFailed."""
    settings = setting_options(SETTINGS)
    if folder.exists():
        # Do not prune: a copy may have been made from something that is gone from the source.
        more = ("fetch", "--quiet", "--no-prune", "--no-recurse-submodules", "--", source)
        here = {**environ, "GIT_TERMINAL_PROMPT": "0", "GIT_DIR": str(folder)}
        run_git([git, *settings, "-c", "gc.auto=0", *more, "+refs/*:refs/*"], here)
        return
    options = ("clone", "--mirror", "--quiet", "--template=", "--no-recurse-submodules")
    fetch = [git, *settings, *options, "--", source, str(folder)]
    run_git(fetch, {**environ, "GIT_TERMINAL_PROMPT": "0"})
    # The address may contain a password, and commands can read this folder.
    here = {**ENVIRONMENT, "GIT_DIR": str(folder)}
    run_git(command(git, "config", "--remove-section", "remote.origin"), here)
    # A copy is made from one commit, which no branch or tag need point to.
    allow = ("config", "uploadpack.allowAnySHA1InWant", "true")
    run_git(command(git, *allow), here)


def commits_of(git: str, folder: Path, refs: Iterable[str]) -> dict[str, str]:
    """Return the ids of the commits that `refs`, names without spaces, stand for in the git folder
    `folder`. Refs that stand for none are left out. Raises CloneFailed."""
    asked = list(dict.fromkeys(refs))
    lines = "".join(f"{ref}^{{commit}}\n" for ref in asked).encode(errors="surrogateescape")
    ask = command(git, "cat-file", "--batch-check=%(objectname) %(objecttype)")
    answer = (
        run_git(ask, {**ENVIRONMENT, "GIT_DIR": str(folder)}, given=lines).decode().splitlines()
    )
    answers = zip(asked, (line.split(" ") for line in answer), strict=True)
    return {ref: words[0] for ref, words in answers if words[1:] == ["commit"]}


def check_out(git: str, kept: Path, commit: str, folder: Path) -> None:
    """Check out `commit` and its history, but nothing else, from the mirror `kept` as a repository
    in the new `folder`. Raises CloneFailed."""
    _init(git, folder, sha256=len(commit) == 64)
    here = {**ENVIRONMENT, **_LOCAL, "GIT_DIR": str(folder / ".git"), "GIT_WORK_TREE": str(folder)}
    allowed = ("-c", "protocol.file.allow=always")
    run_git(command(git, *allowed, "fetch", "-q", "--no-tags", "--", str(kept), commit), here)
    run_git(command(git, "checkout", "-q", "-B", _BRANCH, commit), here)


def begin_repository(git: str, folder: Path) -> None:
    """Make the files of `folder` the first commit of a repository. Raises CloneFailed."""
    _init(git, folder)
    here = {**ENVIRONMENT, **_IDENTITY, "GIT_DIR": str(folder / ".git")}
    here["GIT_WORK_TREE"] = str(folder)
    run_git(command(git, "add", "-A"), here)
    run_git(command(git, "commit", "-q", "--allow-empty", "-m", "As it was"), here)


def _init(git: str, folder: Path, *, sha256: bool = False) -> None:
    kind = ("--object-format=sha256",) if sha256 else ()
    run_git(
        command(git, "init", "-q", "--template=", f"-b{_BRANCH}", *kind, str(folder)), ENVIRONMENT
    )


class WatchedTree:
    """Records the state of a folder and makes patches from it, in a git folder of our own. What
    happens to the folder's own `.git` has no effect on it."""

    def __init__(self, git: str, folder: Path, work_tree: Path) -> None:
        """`folder` is the git folder; it need not exist yet."""
        self._git = git
        self._folder = folder
        self._environ = {
            **ENVIRONMENT,
            "GIT_DIR": str(folder),
            "GIT_WORK_TREE": str(work_tree),
            "GIT_INDEX_FILE": str(folder / "index"),
        }

    def begin(self, lender: Path | None = None, commit: str = "") -> None:
        """Create the git folder, which borrows the objects of the git folder `lender`. All files
        that `commit` contains stay watched, even if they are ignored; so do submodules, as empty
        ones. Raises OSError, CloneFailed."""
        for name in ("objects/info", "refs", "info"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        (self._folder / "HEAD").write_text("ref: refs/heads/none\n")
        (self._folder / "config").write_text(format_settings(commit))
        if lender is not None:
            borrowed = os.fsencode(lender / "objects") + b"\n"
            (self._folder / "objects/info/alternates").write_bytes(borrowed)
        if commit:
            self._ask("read-tree", commit)

    def tree(self) -> str:
        """Return the id of a tree of the current files, without those that the repository says to
        ignore. Raises CloneFailed."""
        (self._folder / "index.lock").unlink(missing_ok=True)
        # Unreadable files are left out, which git reports by exit code 1.
        self._ask("add", "-A", "--ignore-errors", ok=1)
        return self._ask("write-tree").decode().strip()

    def patch(self, old: str, new: str) -> bytes:
        """Return the patch from one tree or commit to another, in UTF-8. Files in another encoding
        appear in it as binary. Raises CloneFailed."""
        made = self._diff(old, new)
        if _is_utf8(made):
            return made
        attributes = self._folder / "info/attributes"
        attributes.write_bytes(b"".join(map(_is_binary, self._not_in_utf8(old, new))))
        try:
            return self._diff(old, new)
        finally:
            attributes.unlink()

    def _not_in_utf8(self, old: str, new: str) -> set[bytes]:
        answer = self._diff("--no-renames", "--name-status", "-z", old, new).split(b"\0")
        changes = zip(answer[::2], answer[1::2], strict=False)
        # If a file becomes a symlink, the diff has two parts: one deletes it, one creates it.
        paths = [path for kind, path in changes for _ in range(2 if kind == b"T" else 1)]
        parts = _PART.split(self._diff("--no-renames", old, new))[1:]
        return {path for path, part in zip(paths, parts, strict=True) if not _is_utf8(part)}

    def _diff(self, *what: str) -> bytes:
        options = ("--binary", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv")
        ask = ("-c", "core.quotePath=true", "diff", *options, "--ignore-submodules=none")
        return self._ask(*ask, *what, "--")

    def _ask(self, *arguments: str, ok: int = 0) -> bytes:
        return run_git(command(self._git, *arguments), self._environ, ok=ok)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_binary(path: bytes) -> bytes:
    """Return a line for git's attributes that declares the file `path` binary."""
    pattern = re.sub(rb"[*?\[\\]", rb"\\\g<0>", path)
    quoted = re.sub(rb'["\\]', rb"\\\g<0>", pattern).replace(b"\n", rb"\n")
    return b'"/' + quoted + b'" -diff\n'
