"""The narrowest rule that would let an action and its like run the next time."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from agentcli.events import Action
from agentcli.events.actions import BrowseURLAction, CmdRunAction, IPythonRunCellAction
from agentcli.security.command_rules import MayWrite, allowing, allows_words, only_reads_alone
from agentcli.security.file_patterns import escaped
from agentcli.security.rules import parse_grants, path_of, tool_name
from agentcli.security.script import SimpleCommand
from agentcli.security.shell_parse import parse_script
from agentcli.security.wrappers import HARMLESS, command_name, is_of_the_system

_FAMILIES: dict[str, str] = {
    "git": "add branch checkout commit diff fetch log merge pull push restore show stash status "
    "switch tag worktree blame cherry-pick revert",
    "npm": "test install ci audit outdated ls version",
    "pnpm": "test install audit outdated ls build lint",
    "yarn": "test install audit outdated build lint",
    "cargo": "build test check clippy fmt doc bench tree update add",
    "go": "build test vet fmt mod list get",
    "docker": "build ps images logs pull push inspect",
    "kubectl": "get describe logs apply",
    "pip": "install list show freeze check download",
    "pip3": "install list show freeze check download",
    "uv": "sync lock add remove tree pip",
    "make": "",
    "gh": "",
    "brew": "install list info update upgrade",
    "apt-get": "update",
    "dotnet": "build test restore",
    "poetry": "install lock add show",
    "terraform": "fmt plan validate",
}
"""Tools whose second word says what they do, and those of these words that are no other program."""
_SCRIPTS = {"npm": ("run", "run-script"), "pnpm": ("run",), "yarn": ("run",), "gh": ("pr", "issue")}
_ONE_WORD = frozenset(
    "pytest mypy ruff black eslint prettier tsc jest vitest mkdir touch curl wget ping".split()  # noqa: SIM905
)
_MODULES = frozenset("pytest unittest mypy ruff black isort flake8".split())  # noqa: SIM905
_LONGEST = 300


def grant_for(
    action: Action, locate: Callable[[str], Path], workspace: Path, may_write: MayWrite
) -> str:
    """The rule to save, several joined by "; " for a compound command; "" when none is safe."""
    if isinstance(action, CmdRunAction):
        return _for_command(action, workspace, may_write)
    if isinstance(action, IPythonRunCellAction):
        return ""
    if isinstance(action, BrowseURLAction):
        try:
            host = urlsplit(action.url).hostname
        except ValueError:
            return ""
        return f"fetch(domain:{host})" if host and re.fullmatch(r"[\w.-]+", host) else ""
    name = tool_name(action)
    if path_of(action) is None:
        return name if re.fullmatch(r"[A-Za-z_][\w.-]*", name, re.ASCII) else ""
    return _for_file(name, path_of(action) or "", locate, workspace)


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


def _for_command(action: CmdRunAction, workspace: Path, may_write: MayWrite) -> str:
    script = parse_script(action.command)
    if action.is_input or action.job is not None or script.unclear or not script.verified:
        return ""
    if any(redirect.target is None for part in script.commands for redirect in part.redirects):
        return ""
    wanted = [_for_part(part) for part in script.commands if not _needs_none(part)]
    text = "; ".join(dict.fromkeys(wanted))
    if not all(wanted) or not text or len(text) > _LONGEST or not text.isprintable():
        return ""
    allowed = allowing(parse_grants(text), script, may_write, str(workspace)).allowed
    return text if allowed else ""


def _needs_none(part: SimpleCommand) -> bool:
    plain = all(
        is_of_the_system(level[0] or "") and command_name(level[0]) in HARMLESS
        for level in part.levels[:-1]
    )
    return not part.words or (plain and only_reads_alone(part))


def _for_part(part: SimpleCommand) -> str:
    """The rule for one command. One that is run with rights, or by a wrapper that could run
    anything, is allowed by its exact words only."""
    for level in part.levels[:-1]:
        if not is_of_the_system(level[0] or "") or command_name(level[0]) not in HARMLESS:
            return _exact(level)
    words = part.levels[-1]
    if None in words or not words:
        return ""
    known = tuple(str(word) for word in words)
    count = _prefix_length(known)
    if count and all(re.fullmatch(r"[\w./@+:-]+", word) for word in known[:count]):
        prefix = f"bash({' '.join(known[:count])}:*)"
        if _covers(prefix, part):
            return prefix
    return _exact(words)


def _prefix_length(words: tuple[str, ...]) -> int:
    """How many words a rule may begin with; 0 when only the exact command will do."""
    name = words[0]
    if name in _ONE_WORD:
        return 1
    if name in ("python", "python3") and words[1:2] == ("-m",) and set(words[2:3]) & _MODULES:
        return 3
    if len(words) < 2 or words[1].startswith("-"):
        return 0
    if name in _SCRIPTS and words[1] in _SCRIPTS[name]:
        return 3 if len(words) > 2 and not words[2].startswith("-") else 0
    if name == "make":
        return 2 if "=" not in words[1] else 0
    return 2 if words[1] in _FAMILIES.get(name, "").split() else 0


def _covers(rule: str, part: SimpleCommand) -> bool:
    return any(allows_words(each, part.levels[-1]) for each in parse_grants(rule))


def _exact(words: tuple[str | None, ...]) -> str:
    if None in words:
        return ""
    return f"bash({shlex.join(str(word) for word in words)})"
