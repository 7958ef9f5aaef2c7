"""Rules of the user: what runs unasked, what is asked about, what is denied.

A rule is `tool` or `tool(pattern)`. bash(git status) means exactly that command, bash(git push:*)
every command that begins with these words, edit(src/**) the files that match a glob as in
.gitignore, fetch(domain:example.org) a site and its subdomains, mcp__server__* all tools of a
server.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from agentcli.errors import ConfigError
from agentcli.events import Action
from agentcli.events.actions import CmdRunAction, path_of, tool_name
from agentcli.security.policy.command_rules import pattern_words
from agentcli.security.policy.file_patterns import pattern_matches
from agentcli.security.policy.host_ports import NETWORK, is_about, port_of
from agentcli.security.policy.reading import READING
from agentcli.security.policy.rule import Decision, Pattern, Rule

UNSANDBOXED = "unsandboxed"
"""Tool name of rules for commands that ask to run without the sandbox. Rules for bash don't allow
these, because sandboxed commands may have changed the very program that a rule names. An allowing
rule must name all words of a command."""
_COMMANDS = ("bash", UNSANDBOXED)
_OF_ALL_FILES = (("edit", "write"), (READING, "read"))
_BROWSING = {"browse_interactive": "browse"}
"""Rules for browse cover both tools."""
_PLANNED: Mapping[str, Pattern] = {"delegate": ""}
"""Tools that not every session has; rules for them are valid anyway."""
_FORM = re.compile(r"(?P<tool>[A-Za-z_][\w.-]*\*?)(?:\((?P<pattern>.*)\))?", re.ASCII)
_OF_SERVER = re.compile(r"mcp__\w[\w.-]*?__(?:\*|[\w.-]+)", re.ASCII)
_EXAMPLES = "write it as bash(git status), bash(git push:*), edit(src/**) or fetch(domain:name)"


def parse_rule(text: str, decision: Decision, origin: str, *, here: bool = False) -> Rule:
    """Parse a rule; see `check_rule` too. Raises ConfigError, with a hint."""
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise ConfigError(f"{origin}: {text!r} is not a rule", hint=_EXAMPLES)
    tool, pattern = found["tool"], (found["pattern"] or "").strip()
    if tool.startswith("mcp__") and not _OF_SERVER.fullmatch(tool):
        raise ConfigError(
            f"{origin}: {text!r} names no tool of a server",
            hint="write it as mcp__server__tool or mcp__server__*",
        )
    if pattern in ("*", ":*"):
        pattern = ""
    if found["pattern"] is not None and not found["pattern"].strip():
        raise ConfigError(f"{origin}: {text!r} has nothing in its brackets", hint=_EXAMPLES)
    if tool in _COMMANDS and pattern:
        pattern_words(pattern, text, origin)
    if tool == UNSANDBOXED and decision == "allow" and (not pattern or pattern.endswith(":*")):
        raise ConfigError(
            f"{origin}: {text!r} would let commands leave the sandbox that nobody has seen",
            hint="name whole commands: unsandboxed(git push origin main)",
        )
    return Rule(decision, tool, pattern, origin, here)


def check_rule(rule: Rule, tools: Mapping[str, Pattern]) -> Rule:
    """Return `rule` if it could ever match. `tools` says for each tool what its rules' patterns
    are. Raises ConfigError, with a hint."""
    if rule.tool == NETWORK:
        return _checked_port(rule)
    known = {**_PLANNED, **tools, UNSANDBOXED: "command"}
    if rule.tool not in known and not rule.tool.startswith("mcp__"):
        near = difflib.get_close_matches(rule.tool.casefold(), known, n=1, cutoff=0.75)
        if near or "*" in rule.tool:
            hint = f"did you mean {near[0]}?" if near else _EXAMPLES
            told = f"{rule.origin}: {str(rule)!r} is for a tool that doesn't exist"
            raise ConfigError(told, hint=hint)
    kind = known.get(rule.tool, "")
    if kind == "url" and rule.pattern and not re.fullmatch(r"domain:[\w.-]+", rule.pattern):
        raise ConfigError(
            f"{rule.origin}: {str(rule)!r} names no site",
            hint=f"write it as {rule.tool}(domain:example.org)",
        )
    if rule.pattern and not kind:
        told = f"{rule.origin}: {rule.tool} takes no pattern"
        raise ConfigError(told, hint=f"write it as {rule.tool}")
    return rule


def _checked_port(rule: Rule) -> Rule:
    """Return a rule that names a port. Raises ConfigError if it names none, or asks: a port is
    either open or not."""
    if rule.decision == "ask" or (not rule.pattern and rule.decision == "allow"):
        raise ConfigError(
            f"{rule.origin}: {str(rule)!r} must name a port of this machine, and must "
            "either allow or deny it",
            hint="write it as network(127.0.0.1:5432); [sandbox] network = true opens all networks",
        )
    if rule.pattern and port_of(rule.pattern) is None:
        raise ConfigError(
            f"{rule.origin}: {str(rule)!r} names no port of this machine's loopback",
            hint="write it as network(127.0.0.1:5432)",
        )
    return rule


def parse_grants(text: str) -> tuple[Rule, ...]:
    """Return the rules of a grant, which `; ` separates; invalid ones are left out."""
    found = []
    for part in split_grants(text):
        try:
            found.append(parse_rule(part, "allow", "allowed by you", here=True))
        except ConfigError:
            continue
    return tuple(found)


def split_grants(text: str) -> list[str]:
    """Split `text` into rules at each `; ` outside of quotes."""
    parts, start, quoted = [], 0, False
    for at, character in enumerate(text):
        if character == "'":
            quoted = not quoted
        elif not quoted and text.startswith("; ", at):
            parts.append(text[start:at])
            start = at + 2
    return [part for part in (*parts, text[start:]) if part]


def for_tool(rule: Rule, action: Action, effect: str) -> bool:
    """Return whether `rule` is about the tool of `action`. Rules for edit cover every tool that
    writes files, those for read every tool that reads files, those for browse both browsing
    tools."""
    name = tool_name(action)
    if rule.tool.endswith("*"):
        return name.startswith(rule.tool[:-1])
    of_files = path_of(action) is not None and (rule.tool, effect) in _OF_ALL_FILES
    return rule.tool == _BROWSING.get(name, name) or rule.tool == name or of_files


def matches(
    rule: Rule,
    action: Action,
    effect: str,
    locate: Callable[[str], Path],
    workspace: Path,
    home: Path,
) -> bool:
    """Return whether `rule` matches this call of any tool but bash, which has that effect. A file
    is judged by where its path really leads; rules that deny or ask are also compared with the
    path as given."""
    if isinstance(action, CmdRunAction):
        return False
    url: str | None = getattr(action, "url", None)
    if rule.tool == NETWORK and url is not None:
        return is_about(rule.pattern, url)
    path = path_of(action)
    if not for_tool(rule, action, effect) and not _must_read_first(rule, effect, path, locate):
        return False
    if not rule.pattern:
        return True
    if path is None:
        return url is not None and _is_of_domain(url, rule.pattern.removeprefix("domain:"))
    named = locate(path)
    places = [Path(os.path.realpath(named))]
    if rule.decision != "allow":
        places.append(named)
    return any(pattern_matches(rule.pattern, place, workspace, home) for place in places)


def _must_read_first(
    rule: Rule, effect: str, path: str | None, locate: Callable[[str], Path]
) -> bool:
    """Return whether this is a rule that keeps files from being read, and the call changes a file
    that exists: that can't be done without reading it."""
    if rule.tool != READING or not rule.pattern or rule.decision == "allow" or effect != "write":
        return False
    return path is not None and locate(path).exists()


def _is_of_domain(url: str, domain: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    host, domain = _as_asked_for(host.rstrip(".")), _as_asked_for(domain.strip("."))
    return host == domain or host.endswith(f".{domain}")


def _as_asked_for(host: str) -> str:
    """Return a host as name servers know it, however it is written."""
    try:
        return host.encode("idna").decode().lower()
    except UnicodeError:
        return host.casefold()


def of_decision(rules: Sequence[Rule], decision: Decision) -> tuple[Rule, ...]:
    """Return the rules with this decision, in order."""
    return tuple(rule for rule in rules if rule.decision == decision)
