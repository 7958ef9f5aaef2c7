"""Hard blocks: what never runs, whatever the mode, the rules and the user say."""

from __future__ import annotations

import json
import re
import stat
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from agentcli.events import Action
from agentcli.events.actions import (
    CmdRunAction,
    IPythonRunCellAction,
    MCPAction,
    ToolCallAction,
    path_of,
)
from agentcli.security.commands.effects import (
    Effect,
    effects,
    inputs_of,
    run_text,
    system_command_name,
)
from agentcli.security.commands.grammar import TimeLimit
from agentcli.security.commands.known_commands import only_reads
from agentcli.security.commands.python_code import read_python
from agentcli.security.commands.script import Script, SimpleCommand, Words, quoted
from agentcli.security.commands.shell_parse import parse_script
from agentcli.security.commands.shell_paths import Expander, Target
from agentcli.security.commands.wrappers import SHELLS
from agentcli.workspace.scope import AccessScope

_SYSTEM = [
    Path(folder)
    for folder in (
        *("/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/libx32"),
        *("/media", "/mnt", "/opt", "/proc", "/root", "/run", "/sbin", "/srv", "/sys", "/usr"),
        *("/usr/bin", "/usr/include", "/usr/lib", "/usr/lib64", "/usr/libexec", "/usr/local"),
        *("/usr/sbin", "/usr/share", "/var", "/var/lib", "/var/spool"),
        *("/Applications", "/Library", "/System", "/Users", "/private", "/private/etc"),
        *("/private/var", "/Volumes"),
    )
]
_DISKS = re.compile(
    r"/dev/(?:[shv]d[a-z]+\d*|xvd[a-z]+\d*|nvme\d.*|mmcblk\d.*|disk\d.*|rdisk\d.*|dm-\d+|md\d+"
    r"|loop\d+|sr\d+|mapper/.+|disk/.+|k?mem|port)"
)
_RAW_ACCESS = {Path("/proc/sysrq-trigger"), Path("/proc/kcore")}
_GIT_HEART = ("", "config", "HEAD", "objects", "refs", "packed-refs")
_FORMATTING = re.compile(r"mkfs(?:\..+)?|mke2fs|mkswap|wipefs|blkdiscard|newfs(?:_.+)?")
_HELP_FLAGS = {"--help", "--version", "-V", "-h"}
_STOPPING = {"shutdown", "reboot", "halt", "poweroff"}
_STOPPING_UNITS = {
    *("poweroff", "reboot", "halt", "kexec", "soft-reboot", "suspend", "hibernate"),
    *("hybrid-sleep", "suspend-then-hibernate", "emergency", "rescue", "isolate"),
}
_STOPPING_MESSAGE = re.compile(r"login1\.Manager\.?\s*(?:PowerOff|Reboot|Halt)|pm-hibernate")
_SUDO_VALUED = "ughpCrtTDR"
_FUNCTION = re.compile(
    r"function\s{1,9}(?P<named>[^\s(){};|&]{1,64})\s{0,9}(?:\(\s{0,9}\)\s{0,9})?\{"
    r"|\(\s{0,9}\)\s{0,9}\{"
)
_NAME_BEFORE = re.compile(r"([^\s(){};|&]{1,64})\s{0,9}$")
_LONGEST_BODY = 1_000
_FORK_BOMBS = (
    re.compile(r"([\"']?\$(?:0|\{0\}|BASH_SOURCE)[\"']?)\s{0,9}(?:\|&?|&)\s{0,9}\1"),
    re.compile(
        r"\bfork\s{0,9}(?:\(\s{0,9}\)\s{0,9})?;?\s{0,9}while\s{0,9}\(?\s{0,9}(?:1|true|fork)\b"
    ),
    re.compile(
        r"while\s{0,9}\(?\s{0,9}(?:1|[Tt]rue|fork)\s{0,9}(?:\(\s{0,9}\)\s{0,9})?\)?\s{0,9}[:{]?\s{0,9}"
        r"(?:os\.)?fork\b"
    ),
    re.compile(r"(?:\bloop|\.times)\s{0,9}(?:do|\{)\s{0,9}fork\b"),
)
_FORK_BOMB = "it would start copies of itself without end (a fork bomb)"
_MOST_DEPTH = 3
_LONGEST_PATH = 4_096
_LONGEST_S = 5.0
_LONGEST = 100_000
"""Longest script that the parser reads, in characters."""


class _TooMuch(Exception):
    """It would take too long to find out what a script does."""


@dataclass
class HardBlocks:
    """Finds out whether an action is blocked. `cwd` returns the folder that commands run in now,
    `environ` holds the variables they see. `contained`: a sandbox hides the agent's own files from
    commands and code, so that merely mentioning these there is harmless."""

    scope: AccessScope
    cwd: Callable[[], str]
    environ: Mapping[str, str]
    effect_of: Callable[[Action], str]
    """Returns the declared effect of an action's tool."""
    contained: bool = False
    _time_limit: TimeLimit = field(default_factory=lambda: TimeLimit(_LONGEST_S), init=False)

    def __call__(self, action: Action) -> str:
        """Return why `action` may never run, as a clause beginning with "it"; "" if it may."""
        self._time_limit = TimeLimit(_LONGEST_S)
        try:
            return self._reason(action)
        except _TooMuch:
            return "it would take too long to check all it may do; put it into a file"
        except RecursionError:
            return "it is nested too deeply to be checked"

    def _reason(self, action: Action) -> str:
        match action:
            case CmdRunAction(job=None, command=command, unsandboxed=True):
                return replace(self, contained=False)._shell(command)
            case CmdRunAction(job=None, command=command):
                return self._shell(command)
            case IPythonRunCellAction(code=code):
                return self._python(code)
        writes = path_of(action) if self.effect_of(action) == "write" else None
        target = None if writes is None else self._expander.literal(writes)
        if target is not None and (reason := self._effect(Effect("write", target))):
            return reason
        match action:
            case ToolCallAction(raw_arguments=arguments):
                return self._named_in(arguments)
            case MCPAction(arguments=values):
                return self._named_in(json.dumps(values, ensure_ascii=False))
        return ""

    def _named_in(self, arguments: str) -> str:
        try:
            values = json.loads(arguments)
        except (ValueError, RecursionError):
            # No tool will be able to parse them either.
            return self._mentioned(arguments)
        return self._named(values) or self._mentioned(arguments)

    @property
    def _expander(self) -> Expander:
        home = self.environ.get("HOME") or str(self.scope.home)
        return Expander(self.cwd(), home, self.environ)

    def _shell(self, text: str, depth: int = 0, folder: str | None = None) -> str:
        if len(text) > _LONGEST:
            return _too_long(text)
        script = parse_script(text)
        if not script.read:
            return f"it can't be checked, as {script.unclear}; write long texts to files"
        if _is_fork_bomb(run_text(text, script, other_languages=True)):
            return _FORK_BOMB
        expander = self._expander.at(folder).with_variables(script.assigned)
        for command in script.commands:
            self._go_on()
            reason = (
                self._stops(command.words, text)
                or _asks_for_a_password(command)
                or next(filter(None, map(self._effect, effects(command, expander))), "")
                or self._touches_own(command, expander)
            )
            if reason:
                return reason if len(script.commands) == 1 else quoted(reason, command.written)
        if depth < _MOST_DEPTH:
            for inner in dict.fromkeys(_hidden_scripts(text, script, expander)):
                if inner != text and (reason := self._shell(inner, depth + 1)):
                    return reason
        return ""

    def _go_on(self) -> None:
        if self._time_limit.is_over():
            raise _TooMuch

    def _python(self, code: str) -> str:
        if len(code) > _LONGEST:
            return _too_long(code)
        found = read_python(code, self._expander.home, self.cwd())
        if found.forks or (not found.parsed and _is_fork_bomb(code)):
            return _FORK_BOMB
        if found.kills_all:
            return "it would kill every process of the user"
        for command in found.commands:
            if reason := self._shell(command):
                return reason
        for verb, path in found.effects:
            if reason := self._effect(Effect(verb, self._expander.literal(path), recursive=True)):
                return reason
        return "" if self.contained else next(filter(None, map(self._place, found.texts)), "")

    def _place(self, text: str) -> str:
        """Return why a text is blocked if it is a path of the agent's own files."""
        self._go_on()
        if len(text) > _LONGEST_PATH or "\n" in text or not text.startswith(("/", "~", ".")):
            return self._mentioned(text)
        target = self._expander.literal(text)
        return _own_reason(text) if self._own(target) and not self._readable(target) else ""

    def _named(self, value: Any) -> str:
        if isinstance(value, str):
            return self._place(value)
        if isinstance(value, dict):
            value = value.values()
        elif not isinstance(value, list | tuple):
            return ""
        return next(filter(None, map(self._named, value)), "")

    def _stops(self, words: Words, text: str) -> str:
        name, given = system_command_name(words), {word for word in words[1:] if word is not None}
        if given & _HELP_FLAGS and len(given) == 1:
            return ""
        stops = name in _STOPPING and not (name == "shutdown" and "-c" in given)
        stops |= name in ("init", "telinit") and bool(given & {"0", "1", "6", "s", "S"})
        stops |= name in ("systemctl", "loginctl") and bool(given & _STOPPING_UNITS)
        stops |= name == "kexec" and bool(given & {"-e", "--exec"})
        stops |= name in ("dbus-send", "gdbus", "busctl") and bool(_STOPPING_MESSAGE.search(text))
        if stops:
            return "it would stop or restart the computer"
        if _FORMATTING.fullmatch(name):
            return "it would format or wipe a disk"
        if name == "killall5" or (name == "kill" and _kills_all(words)):
            return "it would kill every process of the user"
        return ""

    def _effect(self, effect: Effect) -> str:
        self._go_on()
        verb, target, recursive = effect
        for place in target.places:
            if _is_disk(place) and verb != "change the permissions of":
                return f"it would {verb} the disk or device {place}"
            if place in _RAW_ACCESS:
                return f"it would write to {place}, which acts on the whole computer"
        if verb in ("delete", "move") or (recursive and verb == "change the permissions of"):
            homes = dict.fromkeys((self.scope.home, Path(self._expander.home)), "the home folder")
            for place, what in (*homes.items(), *((path, "a system folder") for path in _SYSTEM)):
                if target.names(place) or (what != "a system folder" and target.holds(place)):
                    return f"it would {verb} {place}, {what}"
        holds_own = verb in ("delete", "move") and any(map(target.holds, self.scope.agent_files))
        if holds_own or self._own(target):
            return _own_reason(target.written)
        if verb in ("delete", "move", "write", "append to"):
            for place in self._git():
                if target.names(place) and not (verb == "write" and place.is_dir()):
                    return f"it would {verb} {place}, which holds the history of the workspace"
        return ""

    def _git(self) -> Iterator[Path]:
        roots = {self.scope.workspace, *self.scope.writable}
        folders = {root if root.name == ".git" else root / ".git" for root in roots}
        for folder in sorted(folders):
            for part in _GIT_HEART:
                yield folder / part if part else folder

    def _own(self, target: Target) -> bool:
        return any(map(target.within, self.scope.agent_files))

    def _readable(self, target: Target) -> bool:
        return all(
            any(place.is_relative_to(folder) for folder in self.scope.readable)
            for place in target.places
        )

    def _touches_own(self, command: SimpleCommand, expander: Expander) -> str:
        """Return why a command is blocked that names the agent's own files and is not certain to
        only read."""
        if only_reads(command) or system_command_name(command.words) == "cd":
            return ""
        for here, word in product(expander.around(command), dict.fromkeys(command.words[1:])):
            self._go_on()
            value = word.rpartition("=")[2] if word else word
            for target in here.targets(value, command.unknown):
                if self._own(target) and not self._readable(target):
                    return _own_reason(target.written)
        return "" if self.contained else self._mentioned(command.written)

    def _mentioned(self, text: str) -> str:
        """Return why text that isn't understood is blocked, if it contains a path of the agent's
        own files."""
        home = self._expander.home.rstrip("/")
        for own in self.scope.agent_files:
            spellings = [str(own)]
            if own.is_relative_to(home):
                rest = str(own)[len(home) :]
                spellings += [f"{start}{rest}" for start in ("~", "$HOME", "${HOME}")]
            for spelling in spellings:
                for found in re.finditer(re.escape(spelling) + r"(?![\w-])[^\s'\"]*", text):
                    self._go_on()
                    if not self._readable(self._expander.literal(found.group())):
                        return _own_reason(spelling)
        return ""


def _own_reason(written: str) -> str:
    return f"it would change the agent's own settings or sessions ({written})"


def _too_long(text: str) -> str:
    return f"it is too long to be checked ({len(text)} characters); write long texts to files"


def _is_disk(place: Path) -> bool:
    if _DISKS.fullmatch(str(place)):
        return True
    try:
        return stat.S_ISBLK(place.stat().st_mode)
    except (OSError, ValueError):
        return False


def _kills_all(words: Words) -> bool:
    """Return whether -1, which means all processes, is a target rather than a signal."""
    rest = [word for word in words[1:] if word is not None]
    if rest == ["-1"]:
        return True
    if rest[:1] == ["-l"]:
        return False
    if rest[:1] and rest[0] in ("-s", "-n", "--signal"):
        rest = rest[2:]
    elif rest[:1] and rest[0].startswith("-") and rest[0] != "--":
        rest = rest[1:]
    return "-1" in rest


def _asks_for_a_password(command: SimpleCommand) -> str:
    for level in command.levels:
        if system_command_name(level) != "sudo":
            continue
        rest = iter(level[1:])
        for word in rest:
            if word is None or word == "--" or not word.startswith("-"):
                break
            if word == "--stdin" or re.fullmatch(r"-[A-Za-z]*S[A-Za-z]*", word):
                return "it would read the password for sudo from its input"
            if re.fullmatch(rf"-[A-Za-z]*[{_SUDO_VALUED}]", word):
                next(rest, None)
    return ""


def _is_fork_bomb(text: str) -> bool:
    plain = unicodedata.normalize("NFKC", text).replace("\\\n", "").replace("\\", "")
    if any(pattern.search(plain) for pattern in _FORK_BOMBS):
        return True
    for found in _FUNCTION.finditer(plain):
        before = _NAME_BEFORE.search(plain[max(0, found.start() - 80) : found.start()])
        name = found["named"] or (before and before[1])
        end = plain.find("}", found.end(), found.end() + _LONGEST_BODY)
        body = plain[found.end() : end if end >= 0 else found.end() + _LONGEST_BODY]
        if name and body.count(name) >= 2:
            escaped = re.escape(name)
            twice = rf"(?<![\w.-]){escaped}\s{{0,9}}(?:\|&?|&)\s{{0,9}}{escaped}(?![\w.-])"
            if re.search(twice, body):
                return True
    return False


def _hidden_scripts(text: str, script: Script, expander: Expander) -> Iterator[str]:
    """Yield scripts within a script: a variable's value that is run, and what a shell is fed."""
    for command in script.commands:
        if command.words[:1] == (None,):
            for raw in command.unknown[:1]:
                rest = command.written.partition(raw)[2]
                yield from (name + rest for name in expander.texts(raw) if name)
        if system_command_name(command.words) in SHELLS:
            source = command.piped_from
            if source is not None and system_command_name(source.words) in ("echo", "printf"):
                said = [word for word in source.words[1:] if word is not None]
                yield " ".join(said).replace("\\n", "\n")
            yield from (found.text for found in inputs_of(command) if found.text)
