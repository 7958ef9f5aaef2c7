"""Rules for shell commands: which words of which parts of a script they are about."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.errors import ConfigError
from agentcli.security.read_only import changes_meaning, only_reads, writes_by_redirect
from agentcli.security.script import Script, SimpleCommand, Words
from agentcli.security.shell_parse import ARITHMETIC, FUNCTION
from agentcli.security.shell_words import decode, tokens
from agentcli.security.wrappers import (
    CHANGES_MEANING,
    FOREIGN_CODE,
    HARMLESS,
    SOURCED,
    command_name,
    is_of_the_system,
)

if TYPE_CHECKING:
    from agentcli.security.rules import Rule

_HIDES_NOTHING = {FOREIGN_CODE, SOURCED, CHANGES_MEANING, FUNCTION, ARITHMETIC}
"""Reasons why a script is unclear that don't keep the names of its commands from being seen."""
MayWrite = Callable[[str, str | None], bool]
"""Whether a redirect may write to a target unasked, given the folder the script went to."""

_VALUED_OPTIONS: Mapping[str, frozenset[str]] = {
    name: frozenset(options.split())
    for name, options in {
        "git": "-C -c --git-dir --work-tree --namespace --exec-path --config-env --attr-source",
        "npm": "--prefix -C -w --workspace --userconfig",
        "pnpm": "-C --dir --filter -F",
        "yarn": "--cwd",
        "docker": "-H --host -c --context --config -l --log-level",
        "podman": "-H --host -c --connection --log-level",
        "kubectl": "-n --namespace --context --cluster --kubeconfig -s --server --user",
        "cargo": "-Z -C --config --color",
        "gh": "-R --repo",
        "go": "-C",
        "uv": "--directory --project --config-file --cache-dir",
        "pip": "--log --proxy --python",
        "systemctl": "-H -M -t -p -n",
    }.items()
}
"""Options before the second word of a command that take a value."""
_NPM = re.compile(
    r"--(?:pre|script|node|userc|globalc|dir|cwd|shell|init|call|workspace-root).*|-[Cc].*"
)
_ESCAPES: Mapping[str, re.Pattern[str]] = {
    "git": re.compile(
        r"--(?!oneline$|others$|ours$|onto(?:=|$)|orphan$|only$)o.*"
        r"|--e(?!xclude|rror|dit|mail|ncoding|mpty).*|--textc.*|--no-index|--conf.*|--tem.*"
        r"|--u(?!pdate|pstream|ser|ntracked|nified|nset|nshallow|nstaged|nmerged).*|--rece.*|--pag.*"
        r"|-O.*|-x|(?:ext|fd)::.*"
    ),
    "find": re.compile(r"-(?:exec|execdir|ok|okdir|delete|fls|fprint.*)"),
    "rg": re.compile(r"--(?:pre|hostname-bin|search-zip).*|-[^-]*z.*"),
    "sort": re.compile(r"-[^-]*[oT].*|--(?:o|t|compress).*"),
    "tree": re.compile(r"-[^-]*[oR].*|--output.*"),
    "date": re.compile(r"-[^-]*s.*|--s.*"),
    "npm": _NPM,
    "pnpm": _NPM,
    "yarn": _NPM,
    "cargo": re.compile(r"--(?:conf|manif|targ).*|-[CZ].*"),
    "go": re.compile(r"--?(?:exec|toolexec|C|overlay|modfile|ldflags|gcflags|vettool).*"),
    "make": re.compile(
        r"-[^-]*[fCIEW].*|--(?:f|m|dir|ev|incl|wh|ne).*|[A-Za-z_][\w.]*\s*[:+?!]*=.*"
    ),
    "tar": re.compile(
        r"--(?:to-c|checkpoint|use|rsh|info|new-vol|rmt|abs|dir).*|-[^-]*[IFPC].*", re.IGNORECASE
    ),
    "rsync": re.compile(r"-[^-]*e.*|--(?:rsh|rsync-path|daemon|config).*"),
    "awk": re.compile(r".*(?:system|getline|\||>|@).*|-[^F].*", re.DOTALL),
    "sed": re.compile(r"-[^-]*[ifs].*|--.*|.*[ewrW].*", re.DOTALL),
    "pip": re.compile(r"--(?:index|extra|find|trusted|python|log|target|prefix|root).*|-[ift].*"),
    "ruff": re.compile(r"--(?:output|cache|conf).*"),
}
"""By these a command does what nobody thinks of who allows it by its first words: it runs another
program, writes a file of another name, or takes its orders from elsewhere."""


def pattern_words(pattern: str, rule: str, origin: str) -> tuple[tuple[str, ...], bool]:
    """The words of a rule for commands, and whether more may follow. Raises ConfigError when they
    aren't the plain words of one command."""
    found = _pattern_words(pattern)
    if isinstance(found, str):
        raise ConfigError(f"{origin}: {rule!r}: {found}", hint="write it as bash(git push:*)")
    return found


@functools.lru_cache(maxsize=512)
def _pattern_words(pattern: str) -> tuple[tuple[str, ...], bool] | str:
    is_prefix = pattern.endswith(":*")
    text = pattern[:-2] if is_prefix else pattern
    places = tokens(text)
    if not places:
        return "it must be the plain words of one command"
    words = []
    for place in places:
        raw = text[place.start : place.end]
        word = decode(raw).text
        if place.separates or raw[0] in "<>&":
            return "a rule is for one command; each part of a compound is judged by itself"
        if word is None:
            return f"{raw} is not a plain word; what may follow is written as :*"
        words.append(word)
    return tuple(words), is_prefix


def _begins(words: Words, rule: Rule) -> bool:
    """Whether `words` certainly are what `rule` is about."""
    if not rule.pattern:
        return True
    wanted, is_prefix = pattern_words(rule.pattern, str(rule), rule.origin)
    return words[: len(wanted)] == wanted and (is_prefix or len(words) == len(wanted))


def _could_begin(words: Words, rule: Rule) -> bool:
    """Whether `words` could turn out to be what `rule` is about when they are run."""
    wanted, _ = pattern_words(rule.pattern, str(rule), rule.origin)
    for word, want in zip(words, wanted, strict=False):
        if word is None:
            return True
        if word != want:
            return False
    return len(words) >= len(wanted) and _begins(words, rule)


def _spellings(words: Words) -> Iterator[Words]:
    """`words` as written, by the command's bare name, and without options before the second."""
    yield words
    name = command_name(words[0]) if words else None
    if name is None:
        return
    yield (name, *words[1:])
    valued = _VALUED_OPTIONS.get(name, frozenset())
    at = 1
    while at < len(words):
        word = words[at]
        if word is None or not word.startswith("-") or word == "--":
            break
        at += 2 if word in valued else 1
    if at > 1:
        yield (name, *words[at:])


def forbidding(rules: Sequence[Rule], script: Script) -> Rule | None:
    """The first rule, of those that deny or ask, that any part of `script` falls under."""
    for rule in rules:
        for part in script.commands:
            for level in part.levels:
                if any(_begins(words, rule) for words in _spellings(level)):
                    return rule
    return rules_for_all(rules)


def rules_for_all(rules: Sequence[Rule]) -> Rule | None:
    return next((rule for rule in rules if not rule.pattern), None)


def possible(rules: Sequence[Rule], script: Script, text: str) -> Rule | None:
    """The first rule that a part of `script` could fall under that isn't known before it runs.
    Where all commands are known, or written in another language, only a rule whose command is
    named anywhere in the text counts."""
    squeezed = re.sub(r"[\\'\"\s]", "", unicodedata.normalize("NFKC", text))
    hides = any(doubt not in _HIDES_NOTHING for doubt in script.doubts)
    for rule in rules:
        name = pattern_words(rule.pattern, str(rule), rule.origin)[0][0] if rule.pattern else ""
        levels = [level for part in script.commands for level in part.levels]
        if any(_could_begin(words, rule) for level in levels for words in _spellings(level)):
            return rule
        if hides or (script.doubts and name in squeezed):
            return rule
    return None


@dataclass(frozen=True)
class Allowance:
    """What rules that allow make of a script. `rule` is the first of them that was needed; None
    when it isn't allowed, or nothing of it needed one."""

    allowed: bool
    rule: Rule | None = None


REFUSED = Allowance(False)


def allowing(
    rules: Sequence[Rule],
    script: Script,
    may_write: MayWrite,
    workspace: str,
    folder: str | None = None,
) -> Allowance:
    """Whether every part of `script` is allowed by a rule, or reads only. `folder` is where it
    starts, if that is known; else it is taken to be the workspace."""
    if script.unclear or not script.verified or not script.commands:
        return REFUSED
    moved = bool(folder) or any(part.words[:1] == ("cd",) for part in script.commands)
    needed: Rule | None = None
    for part in script.commands:
        if not _is_plain(part, may_write):
            return REFUSED
        bare = not part.words or only_reads(_without_redirects(part))
        is_git = part.words[:1] == ("git",)
        if moved and (is_git or not bare) and not _is_at_home(part, workspace, folder):
            return REFUSED
        rule = None if bare else _rule_for(rules, part)
        if not bare and rule is None:
            return REFUSED
        needed = needed or rule
    return Allowance(True, needed)


def _is_plain(part: SimpleCommand, may_write: MayWrite) -> bool:
    if changes_meaning(part) or not (part.literal or (part.globs and only_reads(part))):
        return False
    for redirect in part.redirects:
        if writes_by_redirect(redirect):
            target = redirect.target
            if not target or target.startswith(("/dev/tcp", "/dev/udp")):
                return False
            if redirect.operator == "<" or not may_write(target, part.cwd):
                return False
    return True


def _is_at_home(part: SimpleCommand, workspace: str, folder: str | None) -> bool:
    """Whether `part` runs where the person meant it: what a command does depends on the files
    around it. git looks for a repository, whose settings name programs to run, in each folder."""
    if part.cwd is None and folder is None:
        return False
    root = Path(workspace).resolve()
    place = Path(workspace, folder or "", part.cwd or "").resolve()
    program = part.words[0] or ""
    if command_name(program) == "git" or ("/" in program and not program.startswith("/")):
        return place == root
    return place.is_relative_to(root)


def _without_redirects(part: SimpleCommand) -> SimpleCommand:
    return replace(part, redirects=())


def _rule_for(rules: Sequence[Rule], part: SimpleCommand) -> Rule | None:
    """The rule by which `part` may run. One that is about the very words of a wrapper covers what
    that runs; else each wrapper must be harmless or allowed, and what it runs must be allowed."""
    covering: Rule | None = None
    for level in part.levels[:-1]:
        exact = next((r for r in rules if _is_exact(r) and allows_words(r, level)), None)
        if exact is not None:
            return exact
        name = level[0] or ""
        if is_of_the_system(name) and command_name(name) in HARMLESS:
            continue
        covering = next((r for r in rules if allows_words(r, level)), None)
        if covering is None:
            return None
    own = next((r for r in rules if allows_words(r, part.levels[-1])), None)
    if own is None and covering is not None and only_reads_alone(part):
        return covering
    return own


def only_reads_alone(part: SimpleCommand) -> bool:
    """Whether the command within its wrappers is certain to read only."""
    return only_reads(replace(part, wrappers=(), levels=part.levels[-1:], redirects=()))


def _is_exact(rule: Rule) -> bool:
    return bool(rule.pattern) and not rule.pattern.endswith(":*")


def allows_words(rule: Rule, words: Words) -> bool:
    """Whether `rule` lets a command of these words run, unless an option makes it another."""
    if not words or words[0] is None:
        return False
    name = command_name(words[0]) or ""
    spelled = [words]
    if is_of_the_system(words[0]):
        spelled.append((name, *words[1:]))
    if not any(_begins(spelling, rule) for spelling in spelled):
        return False
    escapes = _ESCAPES.get(name)
    if _is_exact(rule) or escapes is None or not rule.pattern:
        return True
    given = len(pattern_words(rule.pattern, str(rule), rule.origin)[0])
    return not any(w is None or escapes.fullmatch(w) for w in words[given:])
