"""The narrowest rule that would let an action and its like run the next time."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from agentcli.events import Action
from agentcli.events.actions import CmdRunAction, IPythonRunCellAction, path_of, tool_name
from agentcli.security.commands.known_commands import known_command
from agentcli.security.commands.read_only import runs_git
from agentcli.security.commands.script import SimpleCommand
from agentcli.security.commands.shell_parse import parse_script
from agentcli.security.commands.wrappers import HARMLESS, command_name, is_of_the_system
from agentcli.security.policy.command_rules import (
    CommandContext,
    allows_words,
    judge_allowed,
    only_reads_alone,
)
from agentcli.security.policy.file_patterns import escaped
from agentcli.security.policy.rules import parse_grants

_LONGEST = 300


def grant_for(action: Action, locate: Callable[[str], Path], setting: CommandContext) -> str:
    """The rule to save, several joined by "; " for a compound command; "" when none is safe.
    `setting` is where a command would run."""
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
        return f"{name}(domain:{host})" if host and re.fullmatch(r"[\w.-]+", host) else ""
    if path_of(action) is None:
        return name
    return _for_file(name, path_of(action) or "", locate, Path(setting.workspace))


def _for_file(name: str, path: str, locate: Callable[[str], Path], workspace: Path) -> str:
    """The folder of a file in the workspace, the very file elsewhere."""
    place, root = locate(path).resolve(), workspace.resolve()
    tool = "edit" if name in ("write", "edit") else name
    if not str(place).isprintable():
        return ""
    if not place.is_relative_to(root):
        return f"{tool}({escaped(str(place))})"
    relative = place.relative_to(root)
    folder = escaped(str(relative.parent))
    return f"{tool}({folder}/**)" if folder != "." else f"{tool}(/{escaped(str(place))[1:]})"


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


def _needs_none(part: SimpleCommand, setting: CommandContext) -> bool:
    if runs_git(part) and not setting.git_reads():
        return False
    plain = all(
        is_of_the_system(level[0] or "") and command_name(level[0]) in HARMLESS
        for level in part.levels[:-1]
    )
    return not part.words or (plain and only_reads_alone(part))


def _for_part(part: SimpleCommand, *, exact: bool) -> str:
    """The rule for one command. One that is run with rights, by a wrapper that could run anything,
    or with all rights (`exact`), is allowed by its exact words only."""
    for level in part.levels[:-1]:
        if not is_of_the_system(level[0] or "") or command_name(level[0]) not in HARMLESS:
            return _exact(level)
    words = part.levels[-1]
    known = known_command(words)
    if known is not None and known.offered and not exact:
        prefix = f"bash({' '.join(str(word) for word in words[: len(known.words)])}:*)"
        if any(allows_words(rule, words, contained=False) for rule in parse_grants(prefix)):
            return prefix
    return _exact(words)


def _exact(words: tuple[str | None, ...]) -> str:
    if None in words:
        return ""
    return f"bash({shlex.join(str(word) for word in words)})"
