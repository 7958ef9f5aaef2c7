"""Matches rules for shell commands with the words of a script's parts."""

from __future__ import annotations

import functools
import os
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agentcli.errors import ConfigError
from agentcli.security.commands.known_commands import (
    changes_meaning,
    danger_beyond,
    known_command,
    next_words,
    only_reads,
    reads_unless_told,
    runs_git,
    writes_by_redirect,
)
from agentcli.security.commands.script import Script, SimpleCommand, Words
from agentcli.security.commands.shell_parse import ARITHMETIC, FUNCTION
from agentcli.security.commands.shell_words import decode, tokens
from agentcli.security.commands.wrappers import (
    CHANGES_MEANING,
    FOREIGN_CODE,
    SOURCED,
    bare_words,
    command_name,
    is_harmless_wrapper,
)
from agentcli.security.policy.rule import Rule

_HIDES_NOTHING = {FOREIGN_CODE, SOURCED, CHANGES_MEANING, FUNCTION, ARITHMETIC}
"""Doubts about a script that don't hide the names of its commands."""
MayWrite = Callable[[str, str | None], bool]
"""Returns whether a redirect may write to a target unasked, given the folder that the script
changed to."""


def pattern_words(pattern: str, rule: str, origin: str) -> tuple[tuple[str, ...], bool]:
    """Return the words of a rule for commands, and whether more may follow. Raises ConfigError if
    they aren't the plain words of one command."""
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
            return f"{raw} is not a plain word; write :* for whatever may follow"
        words.append(word)
    return tuple(words), is_prefix


def _begins(words: Words, rule: Rule) -> bool:
    """Return whether `rule` certainly matches `words`."""
    if not rule.pattern:
        return True
    wanted, is_prefix = pattern_words(rule.pattern, str(rule), rule.origin)
    return words[: len(wanted)] == wanted and (is_prefix or len(words) == len(wanted))


def _could_begin(words: Words, rule: Rule) -> bool:
    """Return whether `rule` could match `words` once they are run."""
    wanted, _ = pattern_words(rule.pattern, str(rule), rule.origin)
    for word, want in zip(words, wanted, strict=False):
        if word is None:
            return True
        if word != want:
            return False
    return len(words) >= len(wanted) and _begins(words, rule)


def _spellings(words: Words) -> Iterator[Words]:
    """Yield `words` as written, with the command's bare name, and without options before the second
    word."""
    yield words
    name = command_name(words[0]) if words else None
    if name is None:
        return
    yield (name, *words[1:])
    yield from ((name, *words[at:]) for at in next_words(words, 1) if at > 1)


def first_forbidding_rule(rules: Sequence[Rule], script: Script) -> Rule | None:
    """Return the first of the denying or asking rules that matches any part of `script`."""
    for rule in rules:
        for part in script.commands:
            for level in part.levels:
                if any(_begins(words, rule) for words in _spellings(level)):
                    return rule
    return next((rule for rule in rules if not rule.pattern), None)


def first_possible_rule(rules: Sequence[Rule], script: Script, text: str) -> Rule | None:
    """Return the first rule that may match a part of `script` whose words are known only when it
    runs. If no doubt about the script can hide a command, a rule counts only if its command is
    named somewhere in `text`."""
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
    """Whether the `allow` rules let a script run. `rule` is the first one needed, None if the
    script isn't allowed or needs none. `parts` pairs each command that needs a rule with that rule.
    `why` says why a rule for this command does not allow it, if there is such a rule."""

    allowed: bool
    rule: Rule | None = None
    parts: tuple[tuple[SimpleCommand, Rule], ...] = ()
    why: str = ""


REFUSED = Allowance(False)


@dataclass(frozen=True)
class CommandContext:
    """Where a script would run. `folder` is where it starts; None means the `workspace`.
    `contained`: a sandbox without a network holds it. `may_write` judges its redirects; `git_reads`
    says whether git, when it only reads, runs no program of the repository; `may_show` says whether
    a command that only reads may show unasked what it reads."""

    workspace: str
    may_write: MayWrite
    folder: str | None = None
    contained: bool = False
    git_reads: Callable[[], bool] = lambda: True
    may_show: Callable[[SimpleCommand], bool] = lambda part: True


def judge_allowed(rules: Sequence[Rule], script: Script, setting: CommandContext) -> Allowance:
    """Return whether each part of `script` is allowed by a rule or only reads."""
    if script.unclear or not script.verified or not script.commands:
        return REFUSED
    folder = setting.folder
    moved = bool(folder) or any(part.words[:1] == ("cd",) for part in script.commands)
    needed: list[tuple[SimpleCommand, Rule]] = []
    for part in script.commands:
        if not _is_plain(part, setting.may_write):
            return REFUSED
        bare = not part.words or only_reads(replace(part, redirects=()))
        bare = bare and (not part.words or setting.may_show(part))
        if runs_git(part):
            bare = bare and setting.git_reads()
        settled = bare and not runs_git(part)
        if moved and not settled and not _is_at_home(part, setting.workspace, folder):
            return REFUSED
        if bare:
            continue
        rule = _rule_for(rules, part, contained=setting.contained)
        if rule is None:
            return Allowance(False, why=_why_not(rules, part, contained=setting.contained))
        needed.append((part, rule))
    return Allowance(True, needed[0][1] if needed else None, tuple(needed))


def _why_not(rules: Sequence[Rule], part: SimpleCommand, *, contained: bool) -> str:
    """Return why no rule allows `part`, though one begins with its words; "" if none does."""
    words = part.levels[-1]
    rule = next((r for r in rules if r.pattern.endswith(":*") and _is_about(r, words)), None)
    if rule is None:
        return ""
    known = known_command(words)
    if danger := danger_beyond(words, _given(rule)):
        what = f"it does not cover {danger.word}, which {danger.why}"
    elif known is None:
        reason = "" if contained else "this command is not contained, so "
        what = f"{reason}only a rule with its exact words allows it"
    elif (word := known.first_unknown_word(words, _given(rule))) is not None:
        what = f"it does not cover {word}"
    else:
        return ""
    return f"the rule {rule} is not enough: {what}"


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
    """Return whether `part` runs where the user expects it, because what it does depends on the
    files around it. In every folder, git looks for a repository, whose settings name programs."""
    if part.cwd is None and folder is None:
        return False
    root = Path(os.path.realpath(workspace))
    place = Path(os.path.realpath(Path(workspace, folder or "", part.cwd or "")))
    program = part.words[0] or ""
    if part.name == "git" or ("/" in program and not program.startswith("/")):
        return place == root
    return place.is_relative_to(root)


def _rule_for(rules: Sequence[Rule], part: SimpleCommand, *, contained: bool) -> Rule | None:
    """Return the rule that lets `part` run. A rule with exactly the words of a wrapper covers what
    that runs; otherwise each wrapper must be harmless or allowed, and what it runs must be
    allowed."""
    covering: Rule | None = None

    def allows(rule: Rule, words: Words) -> bool:
        return allows_words(rule, words, contained=contained)

    for level in part.levels[:-1]:
        exact = next((r for r in rules if _is_exact(r) and allows(r, level)), None)
        if exact is not None:
            return exact
        if is_harmless_wrapper(level):
            continue
        covering = next((r for r in rules if allows(r, level)), None)
        if covering is None:
            return None
    own = next((r for r in rules if allows(r, part.levels[-1])), None)
    if own is None and covering is not None and only_reads_alone(part):
        return covering
    return own


def only_reads_alone(part: SimpleCommand) -> bool:
    """Return whether the command within its wrappers certainly only reads."""
    return only_reads(replace(part, wrappers=(), levels=part.levels[-1:], redirects=()))


def _is_exact(rule: Rule) -> bool:
    return bool(rule.pattern) and not rule.pattern.endswith(":*")


def allows_words(rule: Rule, words: Words, *, contained: bool) -> bool:
    """Return whether `rule` lets a command of these words run. A rule with :* covers words known to
    keep the command what it is, and for an unknown command anything, if it is `contained`. A word
    that makes a command more dangerous is covered only by a rule that names it."""
    if not _is_about(rule, words) or words[0] is None:
        return False
    if _is_exact(rule) or not rule.pattern:
        return True
    if danger_beyond(words, _given(rule)):
        return False
    known = known_command(words)
    if known is None:
        return contained and not reads_unless_told(words[0])
    return known.first_unknown_word(words, _given(rule)) is None


def _is_about(rule: Rule, words: Words) -> bool:
    """Return whether `rule` names this command, as written or by its bare name."""
    if not words or words[0] is None:
        return False
    return _begins(words, rule) or _begins(bare_words(words) or words, rule)


def _given(rule: Rule) -> int:
    """Return how many words of a command `rule` names."""
    return len(pattern_words(rule.pattern, str(rule), rule.origin)[0])
