"""Rates the risk of an action by rules; asks no model and runs nothing.

What makes an action risky is in risk_categories.toml. Its patterns are compiled on first use,
because compiling all of them takes longer than judging most actions."""

from __future__ import annotations

import functools
import re
import tomllib
import unicodedata
from functools import lru_cache
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

from agentcli.events import Action
from agentcli.events.actions import (
    AgentFinishAction,
    AgentThinkAction,
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    GlobAction,
    IPythonRunCellAction,
    MessageAction,
    RecallAction,
    SearchAction,
    TaskTrackingAction,
)
from agentcli.events.base import Risk
from agentcli.security.commands.effects import Effect, deletes_unknown, effects, inputs_of, run_text
from agentcli.security.commands.grammar import TimeLimit
from agentcli.security.commands.known_commands import is_read_only, only_reads
from agentcli.security.commands.python_code import PythonCode, read_python
from agentcli.security.commands.script import Script, SimpleCommand, Words, quoted
from agentcli.security.commands.shell_parse import parse_script
from agentcli.security.commands.shell_paths import Expander, Target
from agentcli.security.commands.wrappers import INTERPRETERS, SHELLS, command_name
from agentcli.workspace.scope import AccessScope


class Category(NamedTuple):
    """`reason` completes the sentence "it …"."""

    reason: str
    pattern: re.Pattern[str]


@functools.cache
def risky_commands() -> tuple[Category, ...]:
    """Return the categories that match at the start of a command."""
    return tuple(
        Category(row["reason"], _compiled([f"(?:{text})(?= |$)" for text in row["commands"]]))
        for row in _table()["category"]
    )


@functools.cache
def risky_code() -> tuple[Category, ...]:
    """Return the categories to search for in code of other languages; the first one is about
    databases."""
    return tuple(Category(row["reason"], _compiled(row["pattern"])) for row in _table()["code"])


@functools.cache
def risk_pattern(name: str) -> re.Pattern[str]:
    return _compiled(_table()["patterns"][name])


@functools.cache
def risk_names(name: str) -> frozenset[str]:
    return frozenset(_table()["names"][name].split())


@functools.cache
def _table() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("risk_categories.toml").read_text("utf-8"))


def _compiled(text: str | list[str]) -> re.Pattern[str]:
    joined = text if isinstance(text, str) else "|".join(text)
    terms = _table()["terms"]
    whole = re.sub(r"<([a-z-]+)>", lambda found: str(terms[found[1]]), joined)
    return re.compile(re.sub(r"\n\s*", "", whole))


Rating = tuple[Risk, str]

_READING = (
    *(AgentFinishAction, AgentThinkAction, MessageAction),
    *(RecallAction, SearchAction, GlobAction, TaskTrackingAction),
)
_ROOT = {"sudo", "doas", "su", "pkexec", "run0"}
_BETWEEN_COMMANDS = re.compile(r"[;&|\n(){}`]|\$\(")
_NOTHING = re.compile(r"\\\n|['\"\\]|\$[@*]|\$\{[@*]\}|\$'|\$\"|\$\{IFS\}|\$IFS")
_BLANKS = {"${IFS}": " ", "$IFS": " "}
_WRAPPED = re.compile(
    r"^(?:(?:\w+=\S*|sudo|doas|env|nohup|time|nice|command|builtin|exec|eval|xargs|then|do|else|if"
    r"|while|!)(?: -\S+)* )*"
)
_MONGO_LOSS = re.compile(r"\.drop(?:_database|_collection)?\(|delete_many\(\{\}\)|dropDatabase")
_LONGEST_LINE = 20_000
_LONGEST_S = 5.0
_RUNS_TEXT = SHELLS | {"eval", "source", "."}


def rate_by_rules(action: Action, scope: AccessScope, cwd: str) -> Rating:
    """Return how much harm `action` could do, and why in words. LOW: it only reads; HIGH: it
    matches a category; MEDIUM: anything else, or it can't be judged. Commands run in `cwd`."""
    match action:
        case CmdRunAction(job=None):
            return _command(action, scope, cwd)
        case CmdRunAction(command="status"):
            return Risk.LOW, "it only asks how a job is doing"
        case IPythonRunCellAction(code=code):
            reason = _code(code, scope, cwd)
            return (Risk.HIGH, reason) if reason else (Risk.MEDIUM, "it runs code")
        case FileReadAction(path=path):
            reason = _secret(Expander(cwd, str(scope.home)).literal(path), scope)
            return (Risk.HIGH, reason) if reason else (Risk.LOW, "it only reads")
        case FileWriteAction(path=path) | FileEditAction(path=path):
            effect = Effect("write", Expander(cwd, str(scope.home)).literal(path))
            reason = _harm(effect, scope)
            return (Risk.HIGH, reason) if reason else (Risk.MEDIUM, "it changes a file")
    if isinstance(action, _READING):
        return Risk.LOW, "it only reads"
    return Risk.MEDIUM, "nothing is known about what it does"


def _command(action: CmdRunAction, scope: AccessScope, cwd: str) -> Rating:
    text = action.command
    script = parse_script(text)
    expander = Expander(cwd, str(scope.home), stays=True).with_variables(script.assigned)
    if reason := _script_risk(text, script, expander, scope):
        return Risk.HIGH, reason
    if action.network or action.unsandboxed:
        return Risk.MEDIUM, "it goes beyond the sandbox"
    if script.unclear:
        return Risk.MEDIUM, f"it can't be judged as a whole: {script.unclear}"
    if is_read_only(text):
        return Risk.LOW, "it only reads"
    return Risk.MEDIUM, "it may change files"


def _script_risk(text: str, script: Script, expander: Expander, scope: AccessScope) -> str:
    """Return why a script is of high risk; "" if nothing suggests it."""
    time_limit = TimeLimit(_LONGEST_S)
    for command in script.commands:
        if time_limit.is_over():
            return "it would take too long to judge"
        as_root = "it runs with the rights of another user"
        reason = (
            _categorised(_line(command.words))
            or ("" if _ROOT.isdisjoint((*command.wrappers, command.name)) else as_root)
            or next((_categorised(_line(level)) for level in command.levels[:-1]), "")
            or _foreign(command)
            or _queried(command)
            or _places(command, expander, scope)
        )
        if reason:
            return reason if len(script.commands) == 1 else quoted(reason, command.written)
    return _runs_foreign_text(script) or _by_raw_text(text, script)


def _line(words: Words) -> str:
    name = command_name(words[0]) if words else ""
    shown = [name, *words[1:]]
    return " ".join("¿" if w is None else re.sub(r"\s", "␣", w) or "''" for w in shown)


@lru_cache(maxsize=512)
def _categorised(line: str) -> str:
    if len(line) > _LONGEST_LINE:
        return "it is too long to be judged"
    for category in risky_commands():
        if category.pattern.match(line):
            return f"it {category.reason}"
    return ""


def _foreign(command: SimpleCommand) -> str:
    """Return the risk of code in another language, given as an argument or as input."""
    name = command.name or ""
    if not INTERPRETERS.fullmatch(name):
        return ""
    words = [word for word in command.words[1:] if word]
    code = [" ".join(words), *(found.text for found in inputs_of(command))]
    if name.startswith("python"):
        inline = [word for before, word in pairwise(words) if before == "-c"]
        code = [*inline, *code[1:]]
    is_python = name.startswith("python")
    return next(filter(None, map(_in_python if is_python else _in_code, code)), "")


def _queried(command: SimpleCommand) -> str:
    """Return the risk of a database client whose input tells it to delete something."""
    is_client = risk_pattern("sql-client").fullmatch(command.name or "")
    if not is_client or ":memory:" in command.words:
        return ""
    loses = any(risk_pattern("sql-loss").search(found.text) for found in inputs_of(command))
    return "it deletes data from a database" if loses else ""


def _in_code(code: str) -> str:
    databases = risky_code()[0]
    found = (c for c in risky_code() if c.pattern.search(code))
    for category in found:
        if category is not databases or not risk_pattern("in-memory").search(code):
            return f"it {category.reason}"
    return ""


def _in_python(code: str, found: PythonCode | None = None) -> str:
    """Return the risk of Python code. SQL counts only where it is passed to a database driver, not
    in other texts."""
    found = found or read_python(code, "", "")
    if not found.parsed:
        return _in_code(code)
    queries = "\n".join(found.queries)
    loses = risk_pattern("sql-loss").search(queries) and not risk_pattern("in-memory").search(code)
    if loses or (risk_pattern("mongo").search(code) and _MONGO_LOSS.search(code)):
        return "it deletes data from a database"
    others = (c for c in risky_code()[1:] if c.pattern.search(code))
    return next((f"it {category.reason}" for category in others), "")


def _places(command: SimpleCommand, expander: Expander, scope: AccessScope) -> str:
    if reason := next(filter(None, (_harm(e, scope) for e in effects(command, expander))), ""):
        return reason
    if deletes_unknown(command, expander):
        return "it deletes folders with everything in them"
    reads = only_reads(command)
    unknown = (*command.unknown, *(r.raw for r in command.redirects if r.target is None))
    targets = [r.target for r in command.redirects if r.target]
    words = dict.fromkeys((*command.words[1:], *targets))
    for here, word in product(expander.around(command), words):
        for target in here.targets(word, unknown):
            if reason := _secret(target, scope):
                return reason
            if not reads and _below_home("start-files", target, scope) and word in targets:
                return "it changes what runs at every start"
    return ""


def _harm(effect: Effect, scope: AccessScope) -> str:
    verb, target, recursive = effect
    if reason := _secret(target, scope):
        return reason
    if _below_home("start-files", target, scope):
        return "it changes what runs at every start"
    for place in target.places:
        if risk_pattern("persistence").fullmatch(str(place)):
            return "it makes something run later or at every start"
        if _is_git_inside(place, scope):
            return "it changes the internals of git, which may run programs later"
        if _is_system(place, scope):
            return "it changes the configuration of the system"
    ours = all(_is_ours(place, scope) for place in target.places)
    lasting = verb == "delete some of" and not ours
    if lasting or (verb == "delete" and recursive and not _can_be_made_again(target, scope)):
        return "it deletes folders with everything in them"
    if verb == "change the permissions of" and recursive:
        return "it changes who may use files or accounts"
    return ""


def _secret(target: Target, scope: AccessScope) -> str:
    names = [str(place) for place in target.places]
    if (
        any(not scope.may_read(p) and not scope.is_elsewhere(p) for p in target.places)
        or _below_home("credentials", target, scope)
        or any(risk_pattern("system-credentials").fullmatch(name) for name in names)
    ):
        return "it reads or changes credentials"
    return ""


def _below_home(kind: str, target: Target, scope: AccessScope) -> bool:
    for place in target.places:
        whole = Path(place, *target.pattern)
        if not whole.is_relative_to(scope.home) or _is_ours(whole, scope):
            continue
        if risk_pattern(kind).fullmatch(str(whole.relative_to(scope.home))):
            return True
    return False


def _is_ours(place: Path, scope: AccessScope) -> bool:
    roots = (scope.workspace, *scope.writable, *scope.mounts, *scope.mounts.values())
    return any(place.is_relative_to(root) for root in roots if root != scope.home)


def _is_git_inside(place: Path, scope: AccessScope) -> bool:
    if any(place.is_relative_to(folder) for folder in scope.protected):
        return True
    return (
        re.search(r"/\.git/(?:hooks(?:/|$)|config$|info/attributes$|modules/)", str(place))
        is not None
    )


def _is_system(place: Path, scope: AccessScope) -> bool:
    name = str(place)
    if name == "/":
        return True
    if name in risk_names("harmless-devices") or _is_ours(place, scope):
        return False
    if place.is_relative_to(scope.home) or place.is_relative_to("/tmp"):
        return False
    if any(place.is_relative_to(free) for free in risk_names("free-places")):
        return False
    return any(place.is_relative_to(folder) for folder in risk_names("system-folders"))


def _can_be_made_again(target: Target, scope: AccessScope) -> bool:
    """Return whether every place is within a workspace folder that tools generate, or in a
    temporary folder."""
    for base in target.places:
        whole = Path(base, *target.pattern)
        roots = [root for root in (scope.workspace, *scope.writable) if _below(whole, root)]
        if not roots and _below(whole, Path("/tmp")) and not _below(whole, scope.home):
            continue
        if not roots:
            return False
        parts = whole.relative_to(max(roots, key=lambda root: len(root.parts))).parts
        if not any(
            risk_pattern("generated").fullmatch(part.replace("*", "") or "*") for part in parts
        ):
            return False
    return True


def _below(place: Path, folder: Path) -> bool:
    return place != folder and place.is_relative_to(folder)


def _runs_foreign_text(script: Script) -> str:
    """Return the risk of a shell or interpreter that runs fetched or decoded text."""
    fetched: set[str] = set()
    for command in script.commands:
        name = command.name
        sources, source = [], command.piped_from
        while source is not None:
            sources.append(source)
            source = source.piped_from
        runs = name in _RUNS_TEXT or bool(name and INTERPRETERS.fullmatch(name))
        runs = runs or bool({"eval", "source"} & set(command.wrappers)) or name is None
        if runs and (reason := _origin(sources)):
            return reason
        if runs and None in command.words and (reason := _origin(script.commands)):
            return reason
        if _runs_one_of(command, fetched):
            return "it fetches code and runs it"
        if name in risk_names("fetchers") or any(_is_fetcher(source) for source in sources):
            fetched |= _written_by(command)
    return ""


def _is_fetcher(command: SimpleCommand) -> bool:
    return command.name in risk_names("fetchers")


def _origin(commands: list[SimpleCommand] | tuple[SimpleCommand, ...]) -> str:
    if any(_is_fetcher(command) for command in commands):
        return "it fetches code and runs it"
    if any(risk_pattern("decoders").match(_line(command.words)) for command in commands):
        return "it decodes code and runs it"
    return ""


def _written_by(command: SimpleCommand) -> set[str]:
    """Return the names of files that a fetching command may leave behind."""
    names = {Path(r.target).name for r in command.redirects if r.target and ">" in r.operator}
    for word in command.words[1:]:
        if word and not word.startswith("-"):
            names.add(word.rstrip("/").rpartition("/")[2])
    return names - {"", "null"}


def _runs_one_of(command: SimpleCommand, names: set[str]) -> bool:
    if not command.words or not names:
        return False
    first, rest, name = command.words[0] or "", command.words[1:], command.name or ""
    if "/" in first and name in names:
        return True
    runs = name in _RUNS_TEXT or INTERPRETERS.fullmatch(name)
    if name == "chmod" and any(w and ("x" in w or w.startswith("7")) for w in rest):
        runs = True
    return bool(runs) and any(w and command_name(w) in names for w in rest)


def _by_raw_text(text: str, script: Script) -> str:
    """Judge a script with uncertain words by its text, without quotes, escapes and look-alike
    letters. A parser is not used to split it, because it would find less in broken scripts and in
    here-documents (24 of 8,000 scripts would pass)."""
    plain = unicodedata.normalize("NFKC", text)
    unknown_name = any(c.words[:1] == (None,) for c in script.commands)
    if not script.unclear and plain == text and not unknown_name:
        return ""
    shown = run_text(plain, script, other_languages=False)
    squeezed = _NOTHING.sub(lambda found: _BLANKS.get(found.group(), ""), shown)
    for segment in _BETWEEN_COMMANDS.split(squeezed):
        words = _WRAPPED.sub("", " ".join(segment.split()) + " ").strip().split(" ")
        line = " ".join([command_name(words[0]) or "", *words[1:]])
        if reason := _categorised(line):
            return reason
        if re.match(r"rm(?: \S+)*? (?:-\w*[rR]|--recursive)", line):
            return "it deletes folders with everything in them"
    return ""


def _code(code: str, scope: AccessScope, cwd: str) -> str:
    expander = Expander(cwd, str(scope.home))
    found = read_python(code, expander.home, cwd)
    for command in found.commands:
        script = parse_script(command)
        if reason := _script_risk(command, script, expander.with_variables(script.assigned), scope):
            return reason
    for verb, path in found.effects:
        if reason := _harm(Effect(verb, expander.literal(path), "rmtree" in code), scope):
            return reason
    for text in found.texts:
        is_path = text.startswith(("/", "~")) and "\n" not in text
        if is_path and (reason := _secret(expander.literal(text), scope)):
            return reason
    return _in_python(code, found)
