"""The tree of commands, which mirrors the files in `commands/`: a folder is a group, a file is a
command.

The docstring of a file is its command's help, and its constant `COMMAND` is the function to call. A
file is loaded only when its command is chosen; `agent --help` just reads the docstrings.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import sys
import tokenize
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from importlib.machinery import ModuleSpec
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

    point: ExtensionPoint[FunctionType]

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
            self.commands.setdefault(name, _LazyCommand(name, self.point, name, outside=True))


class _LazyCommand(TyperCommand):
    """A command in the list of its group, loaded when it is chosen. `part` is its name at the
    extension point; unless it is from `outside`, that is one of our files."""

    def __init__(
        self, name: str, point: ExtensionPoint[FunctionType], part: str, *, outside: bool = False
    ) -> None:
        super().__init__(name)
        self._point = point
        self._part = part
        self._outside = outside

    def can_load(self) -> bool:
        return not self._outside or self._point.get(self._part) is not None

    def get_short_help_str(self, limit: int = 45) -> str:
        self.help = self._help()
        return super().get_short_help_str(limit)

    def _help(self) -> str:
        spec = self._spec()
        if spec is None or spec.origin is None:
            return inspect.getdoc(self._point.get(self._part)) or ""
        with open(spec.origin, "rb") as file:
            tokens = tokenize.tokenize(file.readline)
            docstring = next(token.string for token in tokens if token.type == tokenize.STRING)
        return inspect.cleandoc(ast.literal_eval(docstring))

    def _spec(self) -> ModuleSpec | None:
        """Return the spec of the command's module; None for a command of an outside package, whose
        name need not be that of a module."""
        return None if self._outside else find_spec(f"{self._point.package}.{self._part}")

    def load(self) -> Any:
        spec = self._spec()
        if spec is not None and spec.submodule_search_locations is not None:
            return _group(spec.name)
        # A half-loaded module would break whatever reports the interrupt.
        with shield():
            function = self._point.get(self._part)
        if function is None:
            raise UsageError(f"the command {self.name} can't be loaded")
        app = typer.Typer(**_SETTINGS)
        if spec is None:
            app.command(self.name)(_with_exits(function))
        else:
            app.command(self.name, help=_with_rows(import_module(spec.name).__doc__))(function)
        return get_command(app)


def _with_rows(help_text: str | None) -> str:
    """Keep the lines of the examples as they are; the library would reflow them as a paragraph."""
    return (help_text or "").replace("\n\nExamples:\n", "\n\n\b\nExamples:\n")


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
        result = _group(_PACKAGE, _options)(arguments, prog_name="agent", standalone_mode=False)
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
    tree = _group(_PACKAGE, _options)
    tree.list_commands(None)
    return tree


def _group(package: str, callback: Any = None) -> CommandGroup:
    """Return the commands of `package`: those in its `ORDER` first, then all others by name."""
    module = import_module(package)
    app = typer.Typer(
        cls=CommandGroup,
        help=module.__doc__,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        **_SETTINGS,
    )
    if callback is not None:
        app.callback()(callback)
    group = get_group(app)
    assert isinstance(group, CommandGroup)
    entered = package.replace(".cli.", ".")
    group.point = ExtensionPoint(package, "COMMAND", entered, FunctionType)
    # `import` is a keyword, so a module can't have that name.
    files = {file.rstrip("_"): file for file in group.point.file_names()}
    first = [name for name in module.ORDER if name in files]
    group.commands = {
        name: _LazyCommand(name, group.point, files[name]) for name in [*first, *files]
    }
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
