"""The tree of commands, which mirrors the files in `commands/`.

The docstring of a file is its command's help, and its constant `COMMAND` is the function to call;
for a group, a table of functions with docstrings of their own. A file is loaded only when its
command is chosen; the help of `agent` and of a group just reads the docstrings.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import re
import sys
import tokenize
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from types import FunctionType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from agentcli import __version__
from agentcli.app.configuration.store import use_configured_store
from agentcli.cli.without_command import as_run
from agentcli.errors import AgentError, UsageError
from agentcli.extensions import ExtensionPoint
from agentcli.interrupts import shield

_PACKAGE = "agentcli.cli.commands"
_WrongUsage: Any = typer.BadParameter.__base__
_LibraryError: Any = typer.BadParameter.__mro__[-4]
"""The library's error class directly below Exception. Across versions of the library, only the
class for bad values has a public name."""
_SETTINGS: dict[str, Any] = {
    "add_completion": False,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
}


class CommandGroup(TyperGroup):
    """A group of commands; a command is only a name until it is chosen."""

    point: ExtensionPoint[Any]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands:
            self._add_outside()
        if args[0] not in self.commands and not args[0].startswith("-"):
            raise _unknown(ctx, args, list(self.commands))
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed.load() if isinstance(listed, _LazyCommand) else listed, rest

    def list_commands(self, ctx: Any) -> list[str]:
        """List the commands, without those of outside packages that can't be loaded."""
        self._add_outside()
        listed = self.commands.items()
        return [
            name for name, each in listed if not isinstance(each, _LazyCommand) or each.can_load()
        ]

    def _add_outside(self) -> None:
        """Add the commands of outside packages, which are looked up only where they are needed."""
        for name in self.point.outside_names():
            self.commands.setdefault(name, _LazyCommand(name, self.point))


class _LazyCommand(TyperCommand):
    """A command in the list of its group, loaded when it is chosen: the file called `part`, or an
    entry of the group's `table`. Without either, it is of an outside package."""

    def __init__(
        self,
        name: str,
        point: ExtensionPoint[Any],
        part: str = "",
        table: dict[str, str] | None = None,
    ) -> None:
        super().__init__(name)
        self._point = point
        self._table = table
        self._module = f"{point.package}.{part}" if part else ""

    def can_load(self) -> bool:
        return bool(self._module or self._table) or self._found() is not None

    def get_short_help_str(self, limit: int = 45) -> str:
        self.help = self._help()
        return super().get_short_help_str(limit)

    def _help(self) -> str:
        if self._table:
            return self._table[self.name or ""]
        if self._module:
            return _docstring(self._module)
        return inspect.getdoc(self._found()) or ""

    def _found(self) -> Any:
        if self._table:
            return import_module(self._point.package).COMMAND[self.name]
        return self._point.get(self._module.rpartition(".")[2] or self.name or "")

    def load(self) -> Any:
        if self._module and (table := _table(self._module)):
            return _group(self._module, table)
        # A half-loaded module would break whatever reports the interrupt.
        with shield():
            found = self._found()
        if found is None:
            raise UsageError(f"the command {self.name} can't be loaded")
        app = typer.Typer(**_SETTINGS)
        if self._module or self._table:
            app.command(self.name, help=_shell_help(self._help()))(found)
        else:
            app.command(self.name)(_with_exits(found))
        return get_command(app)


def _source(module: str) -> bytes:
    spec = find_spec(module)
    assert spec is not None
    return Path(str(spec.origin)).read_bytes()


def _docstring(module: str) -> str:
    """Return the docstring of a module without loading it."""
    tokens = tokenize.tokenize(BytesIO(_source(module)).readline)
    docstring = next(token.string for token in tokens if token.type == tokenize.STRING)
    return inspect.cleandoc(ast.literal_eval(docstring))


def _table(module: str) -> dict[str, str]:
    """Return the commands of a group's file with the docstrings of their functions, and nothing for
    the file of a single command. The file is not loaded, which would take several times as long as
    the rest of `agent GROUP --help`; not even all of it is parsed."""
    source = _source(module).decode()
    if "\nCOMMAND = {" not in source:
        return {}
    table = ast.parse(source[source.rindex("\nCOMMAND = {") :]).body[0]
    assert isinstance(table, ast.Assign)
    assert isinstance(table.value, ast.Dict)
    entries = zip(table.value.keys, table.value.values, strict=True)
    return {ast.literal_eval(key): _documented(value, source) for key, value in entries if key}


def _documented(value: ast.expr, source: str) -> str:
    """Return the docstring of the function that `value`, an expression of a file, is made from:
    there, in the file from which it is imported, or by way of a constant."""
    for name in (part.id for part in ast.walk(value) if isinstance(part, ast.Name)):
        if found := re.search(rf"^def {name}\(.*?(?=\n\n\n|\Z)", source, re.M | re.S):
            function = ast.parse(found[0]).body[0]
            assert isinstance(function, ast.FunctionDef)
            return ast.get_docstring(function) or ""
        if found := re.search(rf"^{name} = (.*)$", source, re.M):
            return _documented(ast.parse(found[1], mode="eval").body, source)
        found = re.search(rf"^from (\S+) import [^()\n]*\b{name}\b", source, re.M)
        if found and (text := _documented(value, _source(found[1]).decode())):
            return text
    return ""


def _shell_help(text: str) -> str:
    """Return help without the examples for conversations. The lines of the others stay as they are;
    the library would reflow them as a paragraph."""
    kept = "\n".join(line for line in text.split("\n") if not line.startswith("  /"))
    return kept.replace("\n\nExamples:\n", "\n\n\b\nExamples:\n")


def _with_exits(function: FunctionType) -> Callable[..., Any]:
    """Wrap `function` so that it may also end the way a standalone program does, with sys.exit."""

    @wraps(function)
    def run(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except SystemExit as stop:
            if stop.code is not None and not isinstance(stop.code, int):
                raise AgentError(str(stop.code)) from stop
            raise typer.Exit(stop.code or 0) from stop

    return run


def _unknown(ctx: Any, args: list[str], names: list[str]) -> UsageError:
    """Return the error for an unknown command; at the top level, the words may have been a task."""
    wrong, path = args[0], ctx.command_path
    near = difflib.get_close_matches(wrong, names, 3, 0.6)
    hints = [f"did you mean {' or '.join(f'{path} {name}' for name in near)}?"] if near else []
    if ctx.parent is None:
        task = " ".join(word for word in args if word != "--help")
        hints.append(f"to have it done: {as_run(task)}")
    hints = hints or [f"see: {path} --help"]
    return UsageError(f"{path} has no command {wrong!r}", hint="\n  ".join(hints))


def dispatch(arguments: list[str]) -> int:
    """Run `agent ARGUMENTS` and return its exit code. Raises UsageError for wrong arguments."""
    use_configured_store()
    try:
        result = _group(_PACKAGE, callback=_options)(
            arguments, prog_name="agent", standalone_mode=False
        )
    except typer.Exit as stop:
        return stop.exit_code
    except typer.Abort:
        return 130
    except _LibraryError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message(), file=sys.stderr)
            return 2
        if not isinstance(error, _WrongUsage):
            raise AgentError(error.format_message()) from error
        command = error.ctx.command_path if error.ctx is not None else "agent"
        raise UsageError(error.format_message(), hint=f"see: {command} --help") from error
    return result if isinstance(result, int) else 0


def command_tree() -> CommandGroup:
    """Return all commands; each is loaded by calling its `load`."""
    tree = _group(_PACKAGE, callback=_options)
    tree.list_commands(None)
    return tree


def _group(module: str, table: dict[str, str] | None = None, callback: Any = None) -> CommandGroup:
    """Return the commands in the `table` of a group's file, or those of the package: first those in
    its `ORDER`, then all others by name."""
    app = typer.Typer(
        cls=CommandGroup,
        help=_docstring(module),
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        **_SETTINGS,
    )
    if callback is not None:
        app.callback()(callback)
    group = get_group(app)
    assert isinstance(group, CommandGroup)
    point = group.point = ExtensionPoint[Any](
        module, "COMMAND", module.replace(".cli.", "."), FunctionType
    )
    if table:
        group.commands = {name: _LazyCommand(name, point, table=table) for name in table}
    else:
        files = point.file_names()
        first = [name for name in import_module(module).ORDER if name in files]
        group.commands = {n: _LazyCommand(n, point, n) for n in [*first, *files]}
    return group


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"agent {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """The options of `agent` itself."""
