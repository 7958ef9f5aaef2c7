"""Checks the files that an action names: whether an uncontained command would show what is hidden,
which a sandbox would hide anyway, and what would be destroyed without a checkpoint to restore it
from.

If its words are known only when it runs, a contained command may change any file. Only files that
it names are checked; otherwise a single large file in the workspace would make us ask about every
such command."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import islice, pairwise, product
from pathlib import Path
from stat import S_ISREG

from agentcli.events import Action
from agentcli.events.actions import CmdRunAction, IPythonRunCellAction, path_of
from agentcli.security.commands.effects import (
    Effect,
    effects,
    filters,
    operands,
    options,
    system_command_name,
)
from agentcli.security.commands.python_code import read_python
from agentcli.security.commands.script import Script, SimpleCommand, quoted
from agentcli.security.commands.shell_parse import parse_script
from agentcli.security.commands.shell_paths import Expander, Target
from agentcli.security.risk_rating import risk_names, risk_pattern
from agentcli.workspace.folders import walk
from agentcli.workspace.guard import looks_secret
from agentcli.workspace.scope import AccessScope, Coverage

_SEARCH_BELOW = frozenset(("grep", "egrep", "fgrep", "rg", "diff"))
"""Commands that show the content of the files below a folder that they are given."""
_SHOW_NO_CONTENT = frozenset(
    (
        *("[", "basename", "cd", "df", "dirname", "du", "echo", "file", "find", "ls", "printf"),
        *("readlink", "realpath", "stat", "test", "tree", "whereis", "which"),
    )
)
_RECURSIVE = re.compile(r"-[^-efmABCdD]*[rR].*|--r.*|--der.*|--dir.*|-d.*")
"""Options with which grep searches folders, without any name the one it is started in."""
_PATTERN_GIVEN = re.compile(r"-[^-mABCdDgtTjrEM]*[ef].*|--(?:regexp|file).*")
_OF_A_PROCESS = re.compile(r"/proc/(?:\d+|self|thread-self|kcore|kmsg)(?:/(?P<inside>.*))?", re.S)
_FACTS = frozenset(
    ("cgroup", "comm", "io", "limits", "mountinfo", "mounts", "stat", "statm", "status")
)
"""Files of a process that show neither its environment nor its memory, files or arguments."""
_PROCESSES = Path("/proc")
_UP_AFTER_GLOB = re.compile(r".*[*?[].*/\.\.(?:/.*)?", re.S)
_MOST_ENTRIES = 50_000
"""Entries of folders that are compared with a pattern."""


def names_hidden(script: Script, scope: AccessScope, start: str) -> bool:
    """Return whether a part of `script`, run in `start`, names a hidden file or searches a folder
    above one. Homes of other users count as hidden, and so do what processes keep in /proc, places
    that can't be resolved, and whatever is in a folder that is not known."""
    expander = Expander(start, str(scope.home))
    return any(
        here.cwd is None or _leads_to_hidden(scope, part, here)
        for part in script.commands
        for here in expander.around(part)
    )


def shows_secret(part: SimpleCommand, scope: AccessScope, start: str) -> bool:
    """Return whether a part of a script that was started in `start` may show a file that looks like
    a secret and was not given to the session."""
    if part.name in _SHOW_NO_CONTENT:
        return False
    places: list[Path] = []
    for here in Expander(start, str(scope.home)).around(part):
        places += _named(part, here)
        for target in here.targets(None, part.unknown):
            places += _matches(target, scope) or ()
    return any(not scope.is_given(p) and looks_secret(str(p), scope.home) for p in places)


def may_run_elsewhere(part: SimpleCommand, scope: AccessScope, start: str) -> bool:
    """Return whether a part that shows content may run in another folder than its words say, as a
    `cd` before it fails if there is no such folder."""
    if part.name in _SHOW_NO_CONTENT or not (part.cwd or part.moves):
        return False
    folders = (here.cwd for here in Expander(start, str(scope.home)).around(part))
    return not all(
        folder and Path(folder).is_dir() and os.access(folder, os.X_OK) for folder in folders
    )


def _texts(part: SimpleCommand) -> set[str]:
    """Return the known words that may be paths."""
    known = [word for word in part.words[1:] if word]
    known += [redirect.target for redirect in part.redirects if redirect.target]
    return {text for word in known for text in (word, word.partition("=")[2])} - {""}


def _named(part: SimpleCommand, here: Expander) -> list[Path]:
    texts = list(_texts(part))
    for word in part.words[1:]:
        if word and word.startswith("-") and not word.startswith("--"):
            # A path may stand at the end of short options (-fFILE, -nfFILE).
            texts += (word[at:] for at in range(2, len(word)))
    return [place for text in texts for place in here.literal(text).places]


def _leads_to_hidden(scope: AccessScope, part: SimpleCommand, here: Expander) -> bool:
    words = (*_texts(part), *part.unknown)
    if any(text[0] == "~" and text[1:2] not in ("", "/") for text in words):
        return True
    named = _named(part, here)
    patterns = here.targets(None, part.unknown)
    if any(_matches(target, scope) is None for target in patterns):
        return True
    searched = [place for target in patterns for place in target.places]
    if part.name in _SEARCH_BELOW or (part.name == "git" and "diff" in part.words):
        searched += named
        if _searches_its_folder(part, here):
            searched.append(Path(os.path.realpath(here.cwd or "/")))
    return any(_is_hidden(place, scope) for place in (*named, *searched)) or any(
        hidden.is_relative_to(place) for place in searched for hidden in (*scope.hidden, _PROCESSES)
    )


def _searches_its_folder(part: SimpleCommand, here: Expander) -> bool:
    """Return whether it may search the folder that it is started in, as it names no other."""
    words = [word for word in part.words[1:] if word]
    if part.name == "diff" or (part.name != "rg" and not any(map(_RECURSIVE.fullmatch, words))):
        return False
    if any(map(_PATTERN_GIVEN.fullmatch, words)):
        return True
    return not any(
        place.exists()
        for word in words
        if not word.startswith("-")
        for place in here.literal(word).places
    )


def _matches(target: Target, scope: AccessScope) -> list[Path] | None:
    """Return what matches a pattern now; None if anything on the way may be hidden, through links
    too."""
    if target.pattern and (target.within(_PROCESSES) or _UP_AFTER_GLOB.fullmatch(target.written)):
        return None
    found = [*target.places]
    left = _MOST_ENTRIES
    for glob in target.pattern:
        inner: list[Path] = []
        for folder in found:
            for entry in _entries(folder):
                left -= 1
                if left < 0:
                    return None
                if fnmatchcase(entry.name, glob):
                    inner.append(folder / entry.name)
                    if entry.is_symlink():
                        # One that can't be resolved is hidden by its name; see `_is_hidden`.
                        with contextlib.suppress(OSError):
                            inner[-1] = Path(os.path.realpath(inner[-1]))
        if any(_is_hidden(place, scope) for place in inner):
            return None
        found = inner
    return found


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    # What is no folder, or can't be listed, matches nothing.
    with contextlib.suppress(OSError), os.scandir(folder) as scan:
        yield from scan


def _is_hidden(place: Path, scope: AccessScope) -> bool:
    try:
        os.path.realpath(place)
    except OSError:
        # It leads through a link that only its owner may read, as in other processes' folders.
        return True
    process = _OF_A_PROCESS.fullmatch(str(place))
    if process is not None and process["inside"] not in _FACTS:
        return True
    return not scope.may_read(place)


_MOST_FILES = 500
"""Most files named by an action that are added to the checkpoint before it."""
_MOST_BYTES = 200_000_000
_GIT_OPTIONS = re.compile(r"-[Cc]|--(?:git-dir|work-tree|namespace)")


@dataclass
class Losses:
    """`loss_reason` says why an action would destroy what can't be restored, "" if it would not.
    `checkpointable` are files that it names and that the checkpoint before it can include on
    request."""

    loss_reason: str = ""
    checkpointable: list[Path] = field(default_factory=list)


def losses(action: Action, effect: str, scope: AccessScope, cwd: str, coverage: Coverage) -> Losses:
    """Return the losses of `action`. `effect` is that of its tool, `scope` is as commands see it,
    `cwd` is the folder in which they run."""
    found = _Reader(scope, coverage)
    expander = Expander(cwd, str(scope.home), stays=True)
    match action:
        case CmdRunAction(job=None, is_input=False, command=command):
            found.of_script(command, expander)
        case IPythonRunCellAction(code=code):
            found.of_python(code, expander)
        case _ if effect == "write" and (path := path_of(action)) is not None:
            found.of_effect(Effect("write", expander.literal(path)), path)
    return found.losses


class _Reader:
    def __init__(self, scope: AccessScope, coverage: Coverage) -> None:
        self.losses = Losses()
        self._scope = scope
        self._coverage = coverage
        added = (folder for folder in scope.writable if not folder.is_relative_to(coverage.root))
        # A worktree's git folder and the session's temporary folder don't count as added.
        own = {*scope.mounts, *scope.mounts.values(), *scope.readable}
        self._added = [p for p in added if p.name != ".git" and p not in own]

    def of_script(self, text: str, expander: Expander) -> None:
        script = parse_script(text)
        expander = expander.with_variables(script.assigned)
        for command in script.commands:
            name, around = system_command_name(command.words), expander.around(command)
            if name == "git":
                for here in around:
                    self._of_git(command, here)
                continue
            all_effects = list(effects(command, expander))
            written = [p for e in all_effects if e.verb == "write" for p in e.target.places]
            roots = (self._coverage.root, *self._added)
            leaves = not all(any(map(place.is_relative_to, roots)) for place in written)
            for effect in all_effects:
                if effect.verb != "move" or leaves:
                    self.of_effect(effect, command.written, filters(command))
            if name in risk_names("file-databases") and risk_pattern("sql-loss").search(
                command.written
            ):
                for here, word in product(around, operands(command.words)):
                    for target in here.targets(word, ()):
                        self.of_effect(Effect("write", target), command.written)

    def of_python(self, code: str, expander: Expander) -> None:
        found = read_python(code, expander.home, expander.cwd or "/")
        for command in found.commands:
            self.of_script(command, expander)
        for verb, path in found.effects:
            if verb != "move":
                self.of_effect(Effect(verb, expander.literal(path), recursive=True), path)

    def of_effect(self, effect: Effect, written: str, patterns: Sequence[str] | None = ()) -> None:
        """`patterns` are those by which `find` selects; None: it selects by something else."""
        if effect.verb == "append to":
            return
        if effect.verb == "change the permissions of":
            self._of_rights(effect.target, written)
        elif effect.verb == "write":
            for place in _existing(effect.target):
                if self._above(place) is not None:
                    self._file(place, written)
        else:
            self._of_deletion(effect, written, patterns)

    def _of_rights(self, target: Target, written: str) -> None:
        for place in target.places:
            real = self._scope.real_path(place)
            if os.path.lexists(real) and not self._scope.may_write(real):
                self._lose(written, "change the permissions of", place, "is outside the workspace")

    def _of_deletion(self, effect: Effect, written: str, patterns: Sequence[str] | None) -> None:
        target, some = effect.target, effect.verb == "delete some of"
        for left in self._left_out():
            named = target.names(left) if not effect.recursive else target.holds(left)
            if named and not (some and patterns and not _picked(left, patterns)):
                self._lose(written, "delete", left)
        for place in _existing(target.entry):
            above = self._above(place)
            if above is not None and above != place and not self._can_be_made_again(place):
                self._folder(place, written)
            elif any(place.is_relative_to(folder) for folder in self._added):
                why = "is in an added folder, which checkpoints don't cover"
                self._lose(written, "delete", place, why)

    def _of_git(self, command: SimpleCommand, here: Expander) -> None:
        words = _without_options(command.words)
        name, given = (words[0] if words else None), options(words)
        named = [t for word in operands(words) if word for t in here.targets(word, ())]
        if name == "clean" and not {"-n", "--dry-run"} & set(given):
            self._of_clean(words, named or here.targets(".", ()), command.written)
        elif name in ("checkout", "restore", "rm"):
            for target in named:
                for place in _existing(target):
                    if self._above(place) is not None:
                        self._file(place, command.written)

    def _of_clean(self, words: Sequence[str | None], tops: Sequence[Target], written: str) -> None:
        given = options(tuple(words))
        ignored = any(re.fullmatch(r"-[a-zA-Z]*[xX][a-zA-Z]*", option) for option in given)
        spared = [word.partition("=")[2] for word in given if word.startswith("--exclude=")]
        pairs = pairwise(words)
        spared += [value for word, value in pairs if word in ("-e", "--exclude") and value]
        for left in self._left_out():
            is_spared = any(
                fnmatchcase(part, pattern.strip("/")) for part in left.parts for pattern in spared
            )
            # git ignores what was left out as a whole folder.
            if is_spared or not (ignored or left.is_file()):
                continue
            if any(left.is_relative_to(place) for top in tops for place in top.places):
                self._lose(written, "delete", left)

    # --- places ---------------------------------------------------------------------------------

    def _left_out(self) -> Iterator[Path]:
        """Yield what was left out of checkpoints, still exists, and is not generated by tools."""
        for left in sorted(self._coverage.left_out):
            if not self._can_be_made_again(left) and os.path.lexists(left):
                yield left

    def _above(self, place: Path) -> Path | None:
        """Return the path left out of checkpoints that is `place` or a folder around it."""
        left_out = self._coverage.left_out
        return next((p for p in (place, *place.parents) if p in left_out), None)

    def _can_be_made_again(self, place: Path) -> bool:
        if not place.is_relative_to(self._coverage.root):
            return False
        return any(
            map(risk_pattern("generated").fullmatch, place.relative_to(self._coverage.root).parts)
        )

    def _file(self, place: Path, written: str) -> None:
        """Note that a file in a place without checkpoints is changed."""
        try:
            info = place.stat()
        except OSError:
            return
        if not S_ISREG(info.st_mode):
            return
        if info.st_size <= self._coverage.largest_file:
            self.losses.checkpointable.append(place)
        elif not self._can_be_made_again(place):
            self._lose(written, "change", place)

    def _folder(self, place: Path, written: str) -> None:
        """Note that everything in a place without checkpoints is removed."""
        files = list(islice(_files(place), _MOST_FILES + 1))
        try:
            sizes = [path.lstat().st_size for path in files]
        except OSError:
            sizes = [_MOST_BYTES + 1]
        if len(files) > _MOST_FILES or sum(sizes) > _MOST_BYTES:
            self._lose(written, "delete", place)
        elif max(sizes, default=0) > self._coverage.largest_file:
            self._lose(written, "delete", files[sizes.index(max(sizes))])
        else:
            self.losses.checkpointable += files

    def _lose(self, written: str, verb: str, place: Path, why: str = "") -> None:
        shown = place
        if place.is_relative_to(self._coverage.root):
            shown = place.relative_to(self._coverage.root)
        message = f"it would {verb} {shown}, which {why or 'no checkpoint holds'}"
        self.losses.loss_reason = self.losses.loss_reason or quoted(message, written)


def _existing(target: Target) -> Iterator[Path]:
    if not target.pattern:
        yield from (place for place in target.places[-1:] if os.path.lexists(place))
        return
    for base in target.places:
        pattern = "/".join(target.pattern)
        yield from islice(base.glob(pattern), _MOST_FILES)


def _files(place: Path) -> Iterator[Path]:
    if place.is_symlink() or not place.is_dir():
        yield place
        return
    for folder, _, names in walk(place):
        yield from (Path(folder, name) for name in names)


def _picked(left: Path, patterns: Iterable[str]) -> bool:
    below = f"{left}/x"
    return any(
        fnmatchcase(below, f"*/{pattern.removeprefix('./')}")
        if "/" in pattern
        else fnmatchcase(left.name, pattern)
        for pattern in patterns
    )


def _without_options(words: Sequence[str | None]) -> tuple[str | None, ...]:
    """Return the words of git from the subcommand on."""
    at = 1
    while at < len(words):
        word = words[at]
        if word is None or not word.startswith("-"):
            break
        at += 2 if _GIT_OPTIONS.fullmatch(word) else 1
    return tuple(words[at:])
