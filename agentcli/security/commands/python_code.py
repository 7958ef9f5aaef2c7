"""Finds what Python code evidently does to files and processes: calls with literal arguments."""

from __future__ import annotations

import ast
import os.path
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field

from agentcli.security.commands.effects import Verb

_SHELL_CALLS = {"system", "popen", "getoutput", "getstatusoutput", "run", "call", "check_call"}
_SHELL_CALLS |= {"check_output", "Popen", "create_subprocess_shell", "run_cell_magic", "spawn"}
_SPREAD_CALLS = {"execl", "execlp", "execv", "execvp", "spawnl", "spawnlp"}
_SPREAD_CALLS |= {"create_subprocess_exec"}
_DELETING = {"rmtree", "remove", "unlink", "rmdir", "removedirs", "remove_tree", "send2trash"}
_MOVING = {"move", "rename", "renames", "replace"}
_WRITING = {"copy", "copy2", "copyfile", "copytree", "symlink", "link"}
_PATH_WRITING = {"write_text", "write_bytes", "touch", "symlink_to", "hardlink_to"}
_QUERYING = {"execute", "executemany", "executescript", "exec_driver_sql", "raw", "query", "sql"}
_MODULES = {"os", "shutil", "io", "codecs", "pathlib", "builtins", "posix"}
_PATH_MAKERS = {"Path", "PosixPath", "home", "cwd", "expanduser", "resolve", "absolute"}
_MODES = re.compile(r"[rbt]*[wax+][rwabxt+]*")
_MAGIC = re.compile(r"^[ \t]*(?:!|%sx |%system |%%(?:bash|sh)\b[^\n]*\n)(.+)", re.MULTILINE)


@dataclass
class PythonCode:
    """What was found in code. `commands` are shell commands; `effects` what happens to which path;
    `texts` all strings, concatenated if their parts are literal. `forks`: it starts copies of
    itself without end. `parsed`: False if the code could not be parsed."""

    commands: list[str] = field(default_factory=list)
    effects: list[tuple[Verb, str]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    """What it gives to a database driver to execute."""
    kills_all: bool = False
    forks: bool = False
    parsed: bool = True


def read_python(code: str, home: str, cwd: str) -> PythonCode:
    """Read code without ever raising. For code that can't be parsed or is nested too deeply, return
    only its text and its shell lines."""
    shell_lines = [line.strip() for line in _MAGIC.findall(code)]
    found = PythonCode([*shell_lines])
    try:
        _Reader(found, home, cwd).visit(ast.parse(code))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return PythonCode(shell_lines, texts=[code], parsed=False)
    return found


class _Reader(ast.NodeVisitor):
    def __init__(self, found: PythonCode, home: str, cwd: str) -> None:
        self._found = found
        self._home = home
        self._cwd = cwd
        self._names: dict[str, str] = {}
        self._paths: set[str] = set()
        self._modules = set(_MODULES)

    def visit_Import(self, node: ast.Import) -> None:
        self._modules |= {a.asname for a in node.names if a.asname and a.name in _MODULES}

    def visit_Assign(self, node: ast.Assign) -> None:
        text = self._text(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name) and text is not None:
                self._names[target.id] = text
                if self._is_path(node.value):
                    self._paths.add(target.id)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = _called(node.func)
        arguments = [self._text(argument) for argument in node.args]
        first = arguments[0] if arguments else None
        if name in _SHELL_CALLS and node.args:
            self._command(node.args[0])
        elif name in _QUERYING and node.args:
            query = node.args[0]
            inner = query.args[0] if isinstance(query, ast.Call) and query.args else query
            if (text := self._text(inner)) is not None:
                self._found.queries.append(text)
        elif name in _SPREAD_CALLS:
            self._spread(node.args)
        elif name == "kill" and node.args and ast.unparse(node.args[0]) == "-1":
            self._found.kills_all = True
        elif isinstance(node.func, ast.Attribute) and self._is_path(node.func.value):
            self._of_path(name, self._text(node.func.value) or "", arguments)
        elif first is not None and self._is_function(node.func):
            self._of_call(name, first, arguments[1:], node)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        forks = any(isinstance(n, ast.Call) and _called(n.func) == "fork" for n in ast.walk(node))
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        if forks and (endless or not isinstance(node.test, ast.Compare)):
            self._found.forks = True
        self.generic_visit(node)

    def _literal(self, node: ast.expr) -> None:
        if (text := self._text(node)) is not None:
            self._found.texts.append(text)
        self.generic_visit(node)

    visit_Constant = visit_BinOp = visit_JoinedStr = _literal  # noqa: N815

    def _is_path(self, node: ast.expr) -> bool:
        match node:
            case ast.Name(id=name):
                return name in self._paths
            case ast.BinOp(left=left, op=ast.Div()):
                return self._is_path(left)
            case ast.Call(func=func):
                return _called(func) in _PATH_MAKERS and self._text(node) is not None
        return False

    def _is_function(self, node: ast.expr) -> bool:
        """Return whether it is a function of a module, not a method such as a list's `remove`."""
        if not isinstance(node, ast.Attribute):
            return True
        owner = node.value
        if isinstance(owner, ast.Call):
            return _called(owner.func) in ("__import__", "import_module")
        return isinstance(owner, ast.Name) and owner.id in self._modules

    def _spread(self, nodes: list[ast.expr]) -> None:
        """Note a program that is given separately from its words, which begin with its name
        again."""
        words: list[ast.expr] = []
        for node in nodes[1:]:
            words += node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
        self._command(ast.List([nodes[0], *words[1:]]) if nodes else ast.List([]))

    def _command(self, node: ast.expr) -> None:
        if isinstance(node, ast.List | ast.Tuple):
            words = [self._text(item) for item in node.elts]
            self._found.commands.append(shlex.join(word or "''" for word in words))
        elif (text := self._text(node)) is not None:
            self._found.commands.append(text)

    def _of_path(self, name: str, path: str, arguments: list[str | None]) -> None:
        """Note the effect of a method of a path that is written as literals."""
        if name in _DELETING:
            self._found.effects.append(("delete", path))
        elif name in _MOVING:
            self._found.effects.append(("move", path))
        elif name in _PATH_WRITING or (name == "open" and _writes(arguments)):
            self._found.effects.append(("write", path))

    def _of_call(self, name: str, first: str, others: list[str | None], node: ast.Call) -> None:
        mode = next((self._text(word.value) for word in node.keywords if word.arg == "mode"), None)
        if name in _DELETING:
            self._found.effects.append(("delete", first))
        elif name in _MOVING:
            self._found.effects.append(("move", first))
        elif name == "truncate" or (name == "open" and _writes([*others, mode])):
            self._found.effects.append(("write", first))
        if name in _MOVING | _WRITING and others and others[0] is not None:
            self._found.effects.append(("write", others[0]))

    def _text(self, node: ast.expr) -> str | None:
        """Return the value of an expression of literal texts and paths; None if it is not one."""
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.Name(id=name):
                return self._names.get(name)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._joined([left, right], "".join)
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return self._joined([left, right], _path)
            case ast.JoinedStr(values=values):
                inner = [v.value if isinstance(v, ast.FormattedValue) else v for v in values]
                return self._joined(inner, "".join)
            case ast.Subscript(
                value=ast.Attribute(attr="environ"), slice=ast.Constant(value="HOME")
            ):
                return self._home
            case ast.Call(func=func, args=arguments):
                return self._result(_called(func), func, arguments)
        return None

    def _result(self, name: str, func: ast.expr, arguments: list[ast.expr]) -> str | None:
        if name in ("Path", "PosixPath", "join", "str", "fspath", "abspath", "realpath"):
            return self._joined(arguments, _path) if arguments else None
        variable = arguments[0] if arguments else None
        is_home = isinstance(variable, ast.Constant) and variable.value == "HOME"
        if name == "home" or (name in ("getenv", "get") and is_home):
            return self._home
        if name in ("cwd", "getcwd"):
            return self._cwd
        if name in ("expanduser", "resolve", "absolute", "expandvars"):
            inner = arguments[0] if arguments else getattr(func, "value", None)
            text = self._text(inner) if isinstance(inner, ast.expr) else None
            if text is None:
                return None
            text = re.sub(r"\$HOME\b|\$\{HOME\}", lambda _: self._home, text)
            return self._home + text[1:] if text == "~" or text.startswith("~/") else text
        return None

    def _joined(self, nodes: list[ast.expr], join: Callable[[list[str]], str]) -> str | None:
        parts = [self._text(node) for node in nodes]
        known = [part for part in parts if part is not None]
        return join(known) if len(known) == len(parts) else None


def _called(node: ast.expr) -> str:
    """Return the last part of a name, because it may be imported in many ways."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _path(parts: list[str]) -> str:
    return os.path.join("", *parts)  # noqa: PTH118


def _writes(arguments: list[str | None]) -> bool:
    return any(mode is not None and _MODES.fullmatch(mode) for mode in arguments)
