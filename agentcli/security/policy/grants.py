"""Suggests rules that would let an action and similar ones run the next time."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from agentcli.errors import ConfigError
from agentcli.events import Action
from agentcli.events.actions import CmdRunAction, IPythonRunCellAction, path_of, tool_name
from agentcli.security.commands.known_commands import known_command, runs_git
from agentcli.security.commands.script import SimpleCommand, Words
from agentcli.security.commands.shell_parse import parse_script
from agentcli.security.commands.wrappers import is_harmless_wrapper
from agentcli.security.policy.command_rules import (
    CommandContext,
    allows_words,
    judge_allowed,
    only_reads_alone,
)
from agentcli.security.policy.rule import escaped
from agentcli.security.policy.rules import parse_grants, parse_rule, split_grants

_LONGEST = 300
_MOST_CHOICES = 5
"""Most choices offered between the exact command and the usual rule."""
_WRITTEN = "what you wrote"


def grant_for(action: Action, locate: Callable[[str], Path], setting: CommandContext) -> str:
    """Return the rule to save for `action`, or several joined by "; " for a compound command; "" if
    none is safe. `setting` is where a command would run."""
    if isinstance(action, CmdRunAction):
        return _for_command(action, setting)
    if isinstance(action, IPythonRunCellAction):
        return ""
    name = tool_name(action)
    if not re.fullmatch(r"[A-Za-z_][\w.-]*", name, re.ASCII):
        return ""
    if url := getattr(action, "url", None):
        try:
            host = urlsplit(url).hostname
        except ValueError:
            return ""
        name = name.removesuffix("_interactive")
        return f"{name}(domain:{host})" if host and re.fullmatch(r"[\w.-]+", host) else ""
    if path_of(action) is None:
        return name
    files = _files(name, path_of(action) or "", locate, Path(setting.workspace))
    return files[-1] if files else ""


def grant_choices(
    action: Action, locate: Callable[[str], Path], setting: CommandContext
) -> list[str]:
    """Return the rules that could be saved, from one for exactly this action to the broadest
    sensible one; `grant_for` is among them. Returns none if none is safe."""
    usual = grant_for(action, locate, setting)
    if not usual:
        return []
    if isinstance(action, CmdRunAction):
        choices = [*_narrower(action, setting), usual]
    elif path_of(action) is not None and "(" in usual:
        choices = _files(tool_name(action), path_of(action) or "", locate, Path(setting.workspace))
    else:
        choices = [usual]
    return [
        text
        for text in dict.fromkeys(choices)
        if text and len(text) <= _LONGEST and text.isprintable()
    ]


def grant_objection(text: str, covers: Callable[[str], bool]) -> str:
    """Return why the rules `text`, written by a user, can't be saved for an action; "" if they
    can. `covers` says whether given rules let that action run."""
    rules = split_grants(text)
    if not rules or not text.isprintable() or len(text) > _LONGEST:
        return "write a rule, such as bash(git push origin main)"
    for rule in rules:
        try:
            parsed = parse_rule(rule, "allow", _WRITTEN)
        except ConfigError as error:
            message = error.message.removeprefix(f"{_WRITTEN}: ")
            return f"{message}; {error.hint}" if error.hint else message
        if parsed.tool == "bash" and not parsed.pattern:
            return "that would allow every command; name one"
    if not covers(text):
        return "this does not cover what is asked for"
    for rule in rules if len(rules) > 1 else ():
        if covers("; ".join(other for other in rules if other != rule)):
            return f"{rule} is not needed for what is asked for"
    return ""


def _files(name: str, path: str, locate: Callable[[str], Path], workspace: Path) -> list[str]:
    """Return a rule for exactly the file, and one for its folder if that is below the workspace."""
    place, root = (Path(os.path.realpath(each)) for each in (locate(path), workspace))
    tool = "edit" if name in ("write", "edit") else name
    if not str(place).isprintable():
        return []
    exact = f"{tool}({escaped(str(place))})"
    folder = place.relative_to(root).parent if place.is_relative_to(root) else Path()
    return [exact, f"{tool}({escaped(str(folder))}/**)"] if folder != Path() else [exact]


def _for_command(action: CmdRunAction, setting: CommandContext) -> str:
    script = parse_script(action.command)
    if action.is_input or action.job is not None or script.unclear or not script.verified:
        return ""
    if any(redirect.target is None for part in script.commands for redirect in part.redirects):
        return ""
    wanted = [
        _for_part(part, exact=action.unsandboxed)
        for part in script.commands
        if not _needs_none(part, setting)
    ]
    text = "; ".join(dict.fromkeys(wanted))
    if not all(wanted) or not text or len(text) > _LONGEST or not text.isprintable():
        return ""
    return text if judge_allowed(parse_grants(text), script, setting).allowed else ""


def _narrower(action: CmdRunAction, setting: CommandContext) -> Iterator[str]:
    """Yield a rule for the exact command and, unless it is a compound, one for each beginning that
    is longer than the usual rule."""
    parts = [
        part for part in parse_script(action.command).commands if not _needs_none(part, setting)
    ]
    yield "; ".join(dict.fromkeys(_for_part(part, exact=True) for part in parts))
    words = parts[0].levels[-1]
    known = known_command(words)
    usual, exact = (_for_part(parts[0], exact=e) for e in (action.unsandboxed, True))
    if len(parts) > 1 or known is None or usual in (exact, ""):
        return
    lengths = range(len(words) - 1, len(known.words), -1)
    named = [length for length in lengths if not str(words[length - 1]).startswith("-")]
    yield from (_prefix(words[:length]) for length in named[-_MOST_CHOICES:])


def _needs_none(part: SimpleCommand, setting: CommandContext) -> bool:
    if runs_git(part) and not setting.git_reads():
        return False
    plain = all(map(is_harmless_wrapper, part.levels[:-1]))
    return not part.words or (plain and only_reads_alone(part))


def _for_part(part: SimpleCommand, *, exact: bool) -> str:
    """Return the rule for one command. It is for the exact words if the command runs with more
    rights, through a wrapper that could run anything, or unsandboxed (`exact`)."""
    for level in part.levels[:-1]:
        if not is_harmless_wrapper(level):
            return _exact(level)
    words = part.levels[-1]
    known = known_command(words)
    if known is not None and known.offered and not exact:
        prefix = _prefix(words[: len(known.words)])
        if any(allows_words(rule, words, contained=False) for rule in parse_grants(prefix)):
            return prefix
    return _exact(words)


def _prefix(words: Words) -> str:
    return f"bash({shlex.join(str(word) for word in words)}:*)"


def _exact(words: Words) -> str:
    if None in words:
        return ""
    return f"bash({shlex.join(str(word) for word in words)})"
