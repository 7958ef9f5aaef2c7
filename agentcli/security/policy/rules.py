"""Rules of the person: what runs unasked, what is asked, what never runs.

A rule is `tool` or `tool(pattern)`. bash(git status) is that command and no other, bash(git push:*)
every command that begins with these words; edit(src/**) the files of a glob, as in .gitignore;
fetch(domain:example.org) a site with what is below it; mcp__server__* all tools of a server.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from agentcli.errors import ConfigError
from agentcli.events import Action
from agentcli.events.actions import (
    BrowseURLAction,
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    GlobAction,
    MCPAction,
    SearchAction,
    ToolCallAction,
)
from agentcli.security.policy.command_rules import pattern_words
from agentcli.security.policy.file_patterns import pattern_matches
from agentcli.security.policy.rule import Decision, Rule

UNSANDBOXED = "unsandboxed"
"""Of commands that ask to run without the sandbox: a rule for bash lets none of them run, as what
it names may itself have been changed by what the sandbox contains. One that allows names all words
of a command."""
_COMMANDS = ("bash", UNSANDBOXED)
FILE_TOOLS = ("read", "edit", "write", "grep", "glob")
_KNOWN_TOOLS = (
    *FILE_TOOLS,
    *_COMMANDS,
    "python",
    "fetch",
    "todo",
    "think",
    "finish",
    "delegate",
    "ask",
)
_TOOL_OF_KIND = {
    "run": "bash",
    "run_ipython": "python",
    "browse": "fetch",
    "browse_interactive": "browse",
    "task_tracking": "todo",
}
_FORM = re.compile(r"(?P<tool>[A-Za-z_][\w.-]*\*?)(?:\((?P<pattern>.*)\))?", re.ASCII)
_EXAMPLES = "write it as bash(git status), bash(git push:*), edit(src/**) or fetch(domain:name)"


def parse_rule(text: str, decision: Decision, origin: str, *, here: bool = False) -> Rule:
    """Raises ConfigError, with a hint, for what is no rule or could never match."""
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise ConfigError(f"{origin}: {text!r} is not a rule", hint=_EXAMPLES)
    tool, pattern = found["tool"], (found["pattern"] or "").strip()
    _check_tool(tool, text, origin)
    if pattern in ("*", ":*"):
        pattern = ""
    if found["pattern"] is not None and not found["pattern"].strip():
        raise ConfigError(f"{origin}: {text!r} has nothing in its brackets", hint=_EXAMPLES)
    if tool in _COMMANDS and pattern:
        pattern_words(pattern, text, origin)
    elif tool == "fetch" and pattern and not re.fullmatch(r"domain:[\w.-]+", pattern):
        raise ConfigError(
            f"{origin}: {text!r} names no site", hint="write it as fetch(domain:example.org)"
        )
    elif pattern and tool not in (*FILE_TOOLS, *_COMMANDS, "fetch"):
        raise ConfigError(f"{origin}: {tool} takes no pattern", hint=f"write it as {tool}")
    if tool == UNSANDBOXED and decision == "allow" and (not pattern or pattern.endswith(":*")):
        raise ConfigError(
            f"{origin}: {text!r} would let out of the sandbox what nobody has seen",
            hint="name whole commands: unsandboxed(git push origin main)",
        )
    return Rule(decision, tool, pattern, origin, here)


def _check_tool(tool: str, text: str, origin: str) -> None:
    if tool.startswith("mcp__"):
        if not re.fullmatch(r"mcp__\w[\w.-]*?__(?:\*|[\w.-]+)", tool, re.ASCII):
            raise ConfigError(
                f"{origin}: {text!r} names no tool of a server",
                hint="write it as mcp__server__tool or mcp__server__*",
            )
        return
    near = difflib.get_close_matches(tool.casefold(), _KNOWN_TOOLS, n=1, cutoff=0.75)
    if tool not in _KNOWN_TOOLS and (near or "*" in tool):
        hint = f"did you mean {near[0]}?" if near else _EXAMPLES
        raise ConfigError(f"{origin}: {text!r} is for a tool that doesn't exist", hint=hint)


def parse_grants(text: str) -> tuple[Rule, ...]:
    """The rules of a grant, which `; ` separates; those that are none are left out."""
    found = []
    for part in split_grants(text):
        try:
            found.append(parse_rule(part, "allow", "allowed by you", here=True))
        except ConfigError:
            continue
    return tuple(found)


def split_grants(text: str) -> list[str]:
    """The rules that `text` joins by `; `; one within quotes separates nothing."""
    parts, start, quoted = [], 0, False
    for at, character in enumerate(text):
        if character == "'":
            quoted = not quoted
        elif not quoted and text.startswith("; ", at):
            parts.append(text[start:at])
            start = at + 2
    return [part for part in (*parts, text[start:]) if part]


def tool_name(action: Action) -> str:
    """What the model calls the tool of `action`."""
    if isinstance(action, MCPAction):
        return f"mcp__{action.server}__{action.name}"
    if isinstance(action, ToolCallAction):
        return action.name
    return _TOOL_OF_KIND.get(action.kind, action.kind)


def for_tool(rule: Rule, name: str) -> bool:
    """Whether `rule` is about the tool `name`: edit is about write too, read about searches."""
    if rule.tool.endswith("*"):
        return name.startswith(rule.tool[:-1])
    if rule.tool == "edit":
        return name in ("edit", "write")
    if rule.tool == "read":
        return name in ("read", "grep", "glob")
    return rule.tool == name


def path_of(action: Action) -> str | None:
    """The path that a file tool was given."""
    kinds = FileReadAction | FileWriteAction | FileEditAction | SearchAction | GlobAction
    return action.path if isinstance(action, kinds) else None


def matches(
    rule: Rule, action: Action, locate: Callable[[str], Path], workspace: Path, home: Path
) -> bool:
    """Of any tool but bash: whether `rule` is about this call. A file is judged by where its path
    leads in the end; what may not happen to it is also looked up under the name it was given."""
    if isinstance(action, CmdRunAction) or not for_tool(rule, tool_name(action)):
        return False
    if not rule.pattern:
        return True
    if isinstance(action, BrowseURLAction):
        return _is_of_domain(action.url, rule.pattern.removeprefix("domain:"))
    path = path_of(action)
    if path is None:
        return False
    named = locate(path)
    places = [named.resolve()]
    if rule.decision != "allow":
        places.append(named)
    return any(pattern_matches(rule.pattern, place, workspace, home) for place in places)


def _is_of_domain(url: str, domain: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    host, domain = host.rstrip(".").casefold(), domain.strip(".").casefold()
    return host == domain or host.endswith(f".{domain}")


def first(rules: Sequence[Rule], decision: Decision) -> tuple[Rule, ...]:
    """The rules of one kind, in their order."""
    return tuple(rule for rule in rules if rule.decision == decision)
