"""Calls in the terms of other programs' tools, which models know from their training: one table of
names of tools and arguments, and what takes more than another name.

The terms are those of Claude Code and Anthropic's own tools, Codex, Gemini CLI, OpenHands, Cline,
Cursor, Copilot and Crush. What has no counterpart here stays as it is, so the call is refused. A
translated call is judged and carried out like one that was made in our terms.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from agentcli.tools.patches import call_for, patch_in

Values = dict[str, Any]

_NAMESPACE = re.compile(r"(?:functions|default_api|container|repo_browser)[.:]")
_NOT_LETTERS = re.compile(r"[\W_]")
_SHELLS = ("bash", "sh", "zsh")
_RUNS_TEXT = re.compile(r"-[il]*c")
_LONGEST_S = 3600
_EXPLANATIONS = frozenset(("description", "explanation", "instruction", "instructions", "title"))
"""Arguments that only say what a call is for."""


@dataclass(frozen=True)
class _Terms:
    """Other names of one of our tools and of its arguments, without case and punctuation."""

    names: str
    arguments: Mapping[str, str]
    adapt: Callable[[Values], Values] = lambda values: values
    dropped: str = ""
    """Arguments that change nothing here."""


def translated(name: str, values: Values, known: Collection[str]) -> tuple[str, Values]:
    """Return the name and arguments of a call in our own terms, as far as they have other ones.
    `known` are the tools there are; none of them is taken for another. Raises ToolError for a patch
    that can't be applied."""
    patch = patch_in(values.get("command", values.get("cmd")))
    if patch is not None and "edit" in known:
        return call_for(patch)
    if name in known or not name.isprintable():
        return name, _adapted(name, values)
    word = _plain(_NAMESPACE.sub("", name, count=1))
    if word == "applypatch" and len(values) == 1 and "edit" in known:
        return call_for(str(*values.values()))
    if word in _EDITORS:
        own, values = _of_editor(word, values)
    else:
        own = _OWN_NAMES.get(word, name)
    return own, _adapted(own, values)


def _plain(name: str) -> str:
    return _NOT_LETTERS.sub("", name).lower()


def _adapted(own: str, values: Values) -> Values:
    terms = _TERMS.get(own)
    if terms is None:
        return values
    found: Values = {}
    for key, value in values.items():
        word = _plain(key)
        if word in _EXPLANATIONS or word in terms.dropped.split():
            continue
        new = terms.arguments.get(word, key)
        if value is None and new == key:
            continue
        # Given twice, one of the two stays a name that no tool has.
        found[key if new in found or (new != key and new in values) else new] = value
    return terms.adapt(found)


# --- commands -----------------------------------------------------------------------------------


def _command(values: Values) -> Values:
    if isinstance(action := values.pop("action", None), dict):
        values = _adapted("bash", {k: v for k, v in action.items() if k != "type"}) | values
    command = values.get("command")
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        values["command"] = _script(command)
    elif command is None and values.get("restart"):
        values["command"] = ":"
    folder = values.get("workdir")
    if isinstance(folder, str) and isinstance(values.get("command"), str):
        values.pop("workdir")
        values["command"] = f"(cd -- {shlex.quote(folder)} || exit\n{values['command']}\n)"
    if isinstance(ms := values.pop("timeout_ms", None), int | float):
        values.setdefault("timeout", ms / 1000)
    timeout = values.get("timeout")
    if isinstance(timeout, int | float) and timeout > _LONGEST_S:
        # No time in seconds is that long, so these are milliseconds.
        values["timeout"] = min(timeout / 1000, _LONGEST_S)
    escalated = values.pop("sandbox_permissions", None) == "require_escalated"
    if escalated:
        values["unsandboxed"] = True
    return values


def _script(words: list[str]) -> str:
    """Return the command that these words of a program and its arguments are."""
    if (
        len(words) == 3
        and PurePosixPath(words[0]).name in _SHELLS
        and _RUNS_TEXT.fullmatch(words[1])
    ):
        return words[2]
    return shlex.join(words)


# --- files --------------------------------------------------------------------------------------


def _read(values: Values) -> Values:
    match values.pop("view_range", None):
        case [int() as start, int() as end]:
            values |= {"start": start, "end": None if end < 0 else end}
        case list() | tuple() as other if other:
            values["view_range"] = other
    if isinstance(values.get("start"), int):
        values["start"] = max(values["start"], 1)
    if isinstance(values.get("limit"), int):
        values["end"] = values.get("start", 1) + values.pop("limit") - 1
    return values


def _edit(values: Values) -> Values:
    if values.get("expected_replacements") == 1:
        values.pop("expected_replacements")
    edits = values.get("edits")
    if isinstance(edits, str):
        try:
            edits = json.loads(edits)
        except (ValueError, RecursionError):
            return values
    if isinstance(edits, list):
        names = _TERMS["edit"].arguments
        values["edits"] = [
            {names.get(_plain(k), k): v for k, v in e.items()} if isinstance(e, dict) else e
            for e in edits
        ]
    return values


_EDITORS = frozenset(("strreplaceeditor", "strreplacebasededittool"))
"""Anthropic's editor, also of OpenHands: https://docs.anthropic.com/en/docs/agents-and-tools/
tool-use/text-editor-tool"""


def _of_editor(word: str, values: Values) -> tuple[str, Values]:
    """Return a call of the tool that does what the editor's `command` says."""
    rest = {key: value for key, value in values.items() if key not in ("command", "security_risk")}
    match values.get("command"):
        case "view":
            return "read", rest
        case "create":
            return "write", rest
        case "str_replace":
            return "edit", {"new_str": "", **rest} if "new_str" not in rest else rest
        case "insert":
            return "edit", rest
        case "undo_edit":
            return "edit", {**rest, "undo": True}
    return word, values


# --- searches and the rest ----------------------------------------------------------------------


def _grep(values: Values) -> Values:
    match values.pop("output_mode", None):
        case "files_with_matches":
            values["files_only"] = True
        case None | "content":
            pass
        case other:
            values["output_mode"] = other
    context = [values.pop(key) for key in ("before", "after") if key in values]
    if context and all(isinstance(count, int) for count in context):
        values["context"] = max(context)
    if values.pop("is_regexp", True) is False:
        values["pattern"] = re.escape(str(values.get("pattern", "")))
    if values.get("multiline") is False:
        values.pop("multiline")
    return values


_STATUS = {"pending": "todo", "not_started": "todo", "not-started": "todo", "completed": "done"}


def _todo(values: Values) -> Values:
    tasks = values.get("tasks")
    if isinstance(tasks, list):
        values["tasks"] = [_task(task) if isinstance(task, dict) else task for task in tasks]
    return values


def _task(task: Values) -> Values:
    names = {"content": "title", "step": "title", "task": "title", "name": "title"}
    found = {names.get(k, k): v for k, v in task.items() if k in (*names, "title", "notes")}
    status = str(task.get("status", "todo"))
    return {**found, "status": _STATUS.get(status, status)}


_PATHS = dict.fromkeys(
    ("filepath", "absolutepath", "targetfile", "filename", "file", "notebookpath"), "path"
)
_FOLDERS = dict.fromkeys(
    ("directory", "dirpath", "targetdirectory", "relativeworkspacepath", "folder"), "path"
)
_TERMS: Mapping[str, _Terms] = {
    "bash": _Terms(
        "bash shell localshell localshellcall executebash runinterminal runterminalcmd "
        "runterminalcommand runshellcommand executecommand shellcommand execcommand exec terminal "
        "runcommand sh",
        {
            **dict.fromkeys(("cmd", "script", "commandline", "input"), "command"),
            **dict.fromkeys(("runinbackground", "isbackground"), "background"),
            **dict.fromkeys(("timeoutms", "timeoutmilliseconds"), "timeout_ms"),
            **dict.fromkeys(("timeoutseconds", "timeoutsec", "timeouts"), "timeout"),
            **dict.fromkeys(
                ("workdir", "workingdirectory", "cwd", "directory", "dirpath"), "workdir"
            ),
            **dict.fromkeys(
                ("withescalatedpermissions", "dangerouslydisablesandbox"), "unsandboxed"
            ),
            "sandboxpermissions": "sandbox_permissions",
            "justification": "reason",
            "securityrisk": "risk",
        },
        _command,
        "yieldtimems maxoutputtokens login requiresapproval prefixrule",
    ),
    "python": _Terms("python executeipythoncell ipython runpython", {"script": "code"}),
    "read": _Terms(
        "read readfile view viewfile openfile cat ls listdir listdirectory listfiles",
        {
            **_PATHS,
            **_FOLDERS,
            **dict.fromkeys(("offset", "startline", "startlineoneindexed", "linestart"), "start"),
            **dict.fromkeys(("endline", "endlineoneindexedinclusive", "lineend"), "end"),
            **dict.fromkeys(("limit", "maxlines", "numlines"), "limit"),
            "viewrange": "view_range",
        },
        _read,
        "shouldreadentirefile",
    ),
    "write": _Terms(
        "write writefile createfile writetofile savefile create newfile",
        {**_PATHS, **dict.fromkeys(("filetext", "contents", "text", "filecontent"), "content")},
    ),
    "edit": _Terms(
        "edit editfile multiedit strreplace replace replaceinfile replacestringinfile "
        "multireplacestringinfile insert",
        {
            **_PATHS,
            **dict.fromkeys(("oldstring", "oldstr", "oldtext", "search"), "old_str"),
            **dict.fromkeys(("newstring", "newstr", "newtext", "inserttext"), "new_str"),
            **dict.fromkeys(("replaceall", "allowmultiple"), "replace_all"),
            **dict.fromkeys(("insertline",), "insert_line"),
            **dict.fromkeys(("replacements",), "edits"),
            "expectedreplacements": "expected_replacements",
        },
        _edit,
    ),
    "grep": _Terms(
        "grep grepsearch searchfilecontent searchfiles ripgrep rg searchcontent",
        {
            **_FOLDERS,
            **dict.fromkeys(("query", "regex", "regexp"), "pattern"),
            **dict.fromkeys(("include", "includepattern", "filepattern"), "glob"),
            **dict.fromkeys(("i", "caseinsensitive", "ignorecase"), "ignore_case"),
            **dict.fromkeys(("c", "contextlines"), "context"),
            **dict.fromkeys(("headlimit", "maxresults", "limit"), "max_results"),
            **{"a": "after", "b": "before", "outputmode": "output_mode", "isregexp": "is_regexp"},
        },
        _grep,
        "n",
    ),
    "glob": _Terms(
        "glob filesearch findfiles globsearch",
        {**_FOLDERS, **dict.fromkeys(("query", "globpattern"), "pattern")},
    ),
    "todo": _Terms(
        "todo todowrite updateplan managetodolist writetodos tasktracker",
        dict.fromkeys(("todos", "plan", "todolist", "tasklist"), "tasks"),
        _todo,
    ),
    "fetch": _Terms("fetch webfetch fetchurl readurl", {}, dropped="prompt"),
    "think": _Terms("think sequentialthinking", {}),
}

_OWN_NAMES = {word: own for own, terms in _TERMS.items() for word in terms.names.split()}
