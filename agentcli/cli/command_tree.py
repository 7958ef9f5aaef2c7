"""The tree of commands, which mirrors the files in `commands/`.

The docstring of a file is its command's help, and its constant `COMMAND` is the function to call;
for a group, a table of functions with docstrings of their own. A file is loaded only when its
command is chosen; `agent --help` just reads the docstrings.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import sys
import tokenize
from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
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
    """A command in the list of its group, loaded when it is chosen: the file called `part`, or the
    `function` of a group's table. Without either, `part` is from an outside package."""

    def __init__(
        self,
        name: str,
        point: ExtensionPoint[Any],
        part: str = "",
        function: FunctionType | None = None,
    ) -> None:
        super().__init__(name)
        self._point = point
        self._function = function
        self._module = f"{point.package}.{part}" if part else ""

    def can_load(self) -> bool:
        return bool(self._module) or self._found() is not None

    def get_short_help_str(self, limit: int = 45) -> str:
        self.help = self._help()
        return super().get_short_help_str(limit)

    def _help(self) -> str:
        spec = find_spec(self._module) if self._module else None
        if spec is None or spec.origin is None:
            return inspect.getdoc(self._found()) or ""
        with open(spec.origin, "rb") as file:
            tokens = tokenize.tokenize(file.readline)
            docstring = next(token.string for token in tokens if token.type == tokenize.STRING)
        return inspect.cleandoc(ast.literal_eval(docstring))

    def _found(self) -> Any:
        return self._function or self._point.get(self._module.rpartition(".")[2] or self.name or "")

    def load(self) -> Any:
        # A half-loaded module would break whatever reports the interrupt.
        with shield():
            found = self._found()
        if found is None:
            raise UsageError(f"the command {self.name} can't be loaded")
        if isinstance(found, dict):
            return _group(self._module, found)
        app = typer.Typer(**_SETTINGS)
        if self._module or self._function:
            app.command(self.name, help=_shell_help(self._help()))(found)
        else:
            app.command(self.name)(_with_exits(found))
        return get_command(app)


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


def _group(
    module: str, table: Mapping[str, FunctionType] | None = None, callback: Any = None
) -> CommandGroup:
    """Return the commands of a group's `table`, or those of the package: first those in its
    `ORDER`, then all others by name."""
    loaded = import_module(module)
    app = typer.Typer(
        cls=CommandGroup,
        help=loaded.__doc__,
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
    if table is None:
        files = point.file_names()
        first = [name for name in loaded.ORDER if name in files]
        group.commands = {n: _LazyCommand(n, point, n) for n in [*first, *files]}
    else:
        group.commands = {n: _LazyCommand(n, point, function=f) for n, f in table.items()}
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
