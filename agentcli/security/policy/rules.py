"""Rules of the user: what runs unasked, what is asked about, what is denied.

A rule is `tool` or `tool(pattern)`. bash(git status) means exactly that command, bash(git push:*)
every command that begins with these words, edit(src/**) the files that match a glob as in
.gitignore, fetch(domain:example.org) a site and its subdomains, mcp__server__* all tools of a
server.
"""

from __future__ import annotations

import difflib
import errno
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from agentcli.errors import ConfigError
from agentcli.events import Action
from agentcli.events.actions import CmdRunAction, path_of, tool_name
from agentcli.security.policy.command_rules import pattern_words
from agentcli.security.policy.rule import (
    NETWORK,
    READING,
    Decision,
    Pattern,
    Rule,
    is_about,
    matches_nothing,
    pattern_matches,
    port_of,
)
from agentcli.workspace.private import locked, open_regular, ownership_fault, replace_durably

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
            message = f"{rule.origin}: {str(rule)!r} is for a tool that doesn't exist"
            raise ConfigError(message, hint=hint)
    kind = known.get(rule.tool, "")
    if kind == "url" and rule.pattern and not re.fullmatch(r"domain:[\w.-]+", rule.pattern):
        raise ConfigError(
            f"{rule.origin}: {str(rule)!r} names no site",
            hint=f"write it as {rule.tool}(domain:example.org)",
        )
    if rule.pattern and not kind:
        message = f"{rule.origin}: {rule.tool} takes no pattern"
        raise ConfigError(message, hint=f"write it as {rule.tool}")
    return rule


def why_without_effect(
    rule: Rule, tools: Mapping[str, Pattern], workspace: Path, home: Path
) -> str:
    """Return what to tell the user of a rule that can't match anything; "" if it can."""
    known = rule.tool in tools or rule.tool in (*_PLANNED, *_COMMANDS, NETWORK)
    if not known and not rule.tool.startswith("mcp__"):
        return f"{rule.origin}: {str(rule)!r} matches nothing: no tool is named {rule.tool}"
    is_path = tools.get(rule.tool) == "path" and rule.pattern
    if is_path and matches_nothing(rule.pattern, workspace, home):
        return (
            f"{rule.origin}: {str(rule)!r} matches nothing: its wildcards are incomplete, and "
            "nothing has exactly this name; a backslash before [ or { takes it literally"
        )
    return ""


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


_LINE = re.compile(r"(allow|ask|deny) (.+) in (/.*)")
_MAX_BYTES = 1_000_000


@dataclass
class SavedRules:
    """The saved rules in the file `path`. After `load`, `notices` tells the user what was left
    out."""

    path: Path
    notices: list[str] = field(default_factory=list)

    def load(self, workspace: Path, tools: Mapping[str, Pattern]) -> tuple[Rule, ...]:
        """Return the rules of this workspace for `tools` (see `check_rule`). Invalid lines are
        reported in `notices`, and so is a file that can't be read or that others could have
        written."""
        self.notices = []
        found: list[Rule] = []
        for number, line in enumerate(self._lines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            parsed = _LINE.fullmatch(line)
            if parsed is None:
                self.notices.append(f"{self.path}:{number} is not a rule; left out")
                continue
            decision, text, folder = parsed.groups()
            if folder != str(workspace):
                continue
            try:
                origin = f"{self.path}:{number}"
                rule = parse_rule(text, decision, origin, here=True)  # type: ignore[arg-type]
                found.append(check_rule(rule, tools))
            except ConfigError as error:
                self.notices.append(f"{error.message}; left out")
        return tuple(found)

    def add(self, workspace: Path, rules: Iterable[Rule]) -> None:
        """Save `rules` for `workspace`, without duplicates. The file is replaced as a whole, so
        that it is never half written. Raises ConfigError."""
        folder = str(workspace)
        if "\n" in folder or not folder.isprintable():
            raise ConfigError(f"{folder!a} can't be saved in {self.path}: it is not printable")
        new = [f"{rule.decision} {rule} in {folder}".encode() for rule in rules]
        self._change(lambda lines: [*lines, *(e for e in dict.fromkeys(new) if e not in lines)])

    def remove(self, workspace: Path, text: str) -> bool:
        """Remove the rule whose `str` is `text` from `workspace`; return False if there is none.
        Raises ConfigError."""

        def others(lines: list[bytes]) -> list[bytes]:
            return [line for line in lines if not _is_rule(line, text, str(workspace))]

        return self._change(others)

    def _change(self, change: Callable[[list[bytes]], list[bytes]]) -> bool:
        """Apply `change` to the lines of the file; return whether they differ."""
        # If the user made the file a symlink, replace its target.
        path = Path(os.path.realpath(self.path))
        try:
            with locked(path):
                lines = self._read().splitlines()
                changed = change(lines)
                if changed != lines:
                    replace_durably(path, b"\n".join([*changed, b""]))
        except OSError as error:
            raise ConfigError(f"{self.path} can't be written: {error.strerror}") from error
        return changed != lines

    def _lines(self) -> list[str]:
        try:
            return self._read().decode("utf-8", "replace").splitlines()
        except OSError as error:
            self.notices.append(f"{self.path} can't be read: {error.strerror}; left out")
            return []

    def _read(self) -> bytes:
        """Read the file. Raises OSError, also if others could have written it."""
        try:
            with open_regular(self.path, follow=True) as file:
                if fault := ownership_fault(os.fstat(file.fileno())):
                    raise OSError(errno.EPERM, fault)
                text = file.read(_MAX_BYTES + 1)
        except FileNotFoundError:
            return b""
        if len(text) > _MAX_BYTES:
            raise OSError(errno.EFBIG, f"it is larger than {_MAX_BYTES:,} bytes")
        return text


def _is_rule(line: bytes, text: str, folder: str) -> bool:
    """Return whether the line saves this rule for the folder, however it is spelled."""
    parsed = _LINE.fullmatch(line.decode("utf-8", "replace"))
    if parsed is None or parsed[3] != folder:
        return False
    try:
        return str(parse_rule(parsed[2], "allow", "")) == text
    except ConfigError:
        return parsed[2] == text
