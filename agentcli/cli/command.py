"""Commands about a session, each defined once.

A command is a function of a `CommandTarget` that returns a `Report`. The command of a shell, the
one that is typed after `/` in a conversation, that of an editor and the output of `--json` are
renderings of it. The docstring is the help of all of them: of its examples, each shows its own.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Literal, Protocol

from agentcli.cli.options import Json, Last, NoPager, SessionOption, SessionOrNewest
from agentcli.cli.sessions.selector import selected_session, warn_unfinished_restore
from agentcli.cli.terminal import paged, working
from agentcli.cli.user_paths import here
from agentcli.errors import UsageError
from agentcli.sessions.finder import state_of
from agentcli.sessions.session import SessionLog, SessionRecord, read_session
from agentcli.ui.screen import Screen
from agentcli.ui.text import Line, Span, plain, printable, say_note

if TYPE_CHECKING:
    from agentcli.app.agent_builder import AgentBuilder
    from agentcli.app.open_session import OpenSession
    from agentcli.cli.conversation.conversation import Conversation


class CommandTarget(Protocol):
    """What a command is about: a session that is stored, or open in a conversation or an editor."""

    @property
    def width(self) -> int:
        """The most columns of a line."""

    @property
    def builder(self) -> AgentBuilder:
        """Has the settings in force where the session works."""

    @property
    def session(self) -> SessionLog | SessionRecord:
        """The session with its events. Raises UsageError if there is none yet."""

    @property
    def opened(self) -> OpenSession | None: ...

    def open_session(self) -> OpenSession:
        """Return the session ready to work. Raises AgentError."""

    def session_at_rest(self) -> AbstractContextManager[SessionLog]:
        """Open the session with no work running in it, so that its files and its past can be
        changed. Raises UsageError if there is none yet."""


class ShellTarget:
    """The target of a command in a shell; without a `folder`, that is only the present one."""

    opened = None
    width = property(lambda self: get_terminal_size((80, 24)).columns)

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    @property
    def folder(self) -> Path:
        assert self._folder is not None
        return self._folder

    @cached_property
    def builder(self) -> AgentBuilder:
        """Mistakes in the settings are only reported."""
        from agentcli.cli.builders import builder_for, builder_for_session, report_config_error

        if self._folder is None:
            return builder_for(here(), report_config_error)
        return builder_for_session(state_of(self._folder), on_fault=report_config_error)

    @cached_property
    def session(self) -> SessionRecord:
        return read_session(self.folder)

    def open_session(self) -> OpenSession:
        raise UsageError("a stored session is not at work")

    @contextmanager
    def session_at_rest(self) -> Iterator[SessionLog]:
        with SessionLog.open(self.folder) as session:
            warn_unfinished_restore(session)
            yield session


def folder_of(target: CommandTarget) -> Path:
    """Return the session's folder, without reading its events."""
    return target.folder if isinstance(target, ShellTarget) else target.session.folder


@dataclass(frozen=True)
class Report:
    """What a command found or did: `lines` for people, `data` for programs. `notes` say more about
    it, `notices` what is wrong around it. `text` is what a pipe gets in place of the lines.
    `kind` is the language of lines that must not be broken at words, such as diff."""

    lines: Sequence[Line] = ()
    notes: Sequence[str] = ()
    notices: Sequence[str] = ()
    data: Any = None
    text: str | None = None
    kind: str = ""
    indent: int | None = 2
    """Of `data` as JSON."""

    def show(self, *, as_json: bool = False) -> None:
        """Print it: the result on stdout, all else on stderr."""
        if as_json:
            print(json.dumps(self.data, indent=self.indent))
        elif self.text is not None and not sys.stdout.isatty():
            sys.stdout.flush()
            sys.stdout.buffer.write(self.text.encode("utf-8", "surrogateescape"))
        else:
            screen = Screen(sys.stdout, live=False)
            screen.put("note", self.lines)
            screen.flush()
        for notice in self.notices:
            say_note(notice)
        for note in () if as_json else self.notes:
            print(printable(note), file=sys.stderr)

    def markdown(self) -> str:
        """Return it as an editor shows it."""
        shown = "\n".join(plain(line) for line in self.lines)
        fence = "`" * max([3, *(1 + len(ticks) for ticks in re.findall("`+", shown))])
        block = [f"{fence}{self.kind}\n{shown}\n{fence}"] if shown else []
        return "\n\n".join([*block, *self.notes, *self.notices])


@dataclass(frozen=True)
class Command:
    """`run` gets a target and the values of its parameters. `takes` describes the text after the
    name in conversations and editors, and `parse` makes values of it."""

    run: Callable[..., Report]
    takes: str = ""
    parse: Callable[[str], Mapping[str, Any]] = lambda text: {}

    @property
    def help(self) -> str:
        """The docstring of `run`, or else of its file."""
        return inspect.getdoc(self.run) or inspect.getdoc(sys.modules[self.run.__module__]) or ""

    def in_editor(self, target: CommandTarget, text: str) -> str:
        return self.run(target, **self.parse(text)).markdown()

    def in_conversation(self, conversation: Conversation, text: str, *, slow: bool = False) -> None:
        """Run it; one that is `slow` can be interrupted."""
        with conversation.working() if slow else nullcontext():
            report = self.run(conversation, **self.parse(text))
        conversation.print(*report.lines, whole=bool(report.kind))
        conversation.tell(*report.notes)
        conversation.print(*([Span(printable(notice), "yellow")] for notice in report.notices))

    def in_shell(
        self,
        session: Literal["argument", "option", "none"] = "argument",
        *,
        last: bool = False,
        pager: bool = False,
        doing: str = "",
    ) -> Callable[..., None]:
        """Return the function of the shell's command. It also takes a session, by an argument or
        only by an option, and `--json`. `doing` is shown while it takes long."""
        run = self.run
        own = list(inspect.signature(run, eval_str=True).parameters.values())[1:]
        named = [_parameter("named", SessionOrNewest, None)] if session == "argument" else []
        own = [*named, *(each.replace(kind=each.KEYWORD_ONLY) for each in own)]
        own += [_parameter("session", SessionOption, None)] if session != "none" else []
        own += [_parameter("last", Last, False)] if last else []
        own += [_parameter("no_pager", NoPager, False)] if pager else []
        own += [_parameter("as_json", Json, False)]

        @wraps(run)
        def in_shell(**given: Any) -> None:
            as_json = given.pop("as_json")
            no_pager = given.pop("no_pager", True)
            named, option = given.pop("named", None), given.pop("session", None)
            folder = None
            if session != "none":
                folder = selected_session(named, option, last=given.pop("last", False))
            with working(doing) if doing else nullcontext():
                report = run(ShellTarget(folder), **given)
            with paged(no_pager or as_json):
                report.show(as_json=as_json)

        in_shell.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
        in_shell.__annotations__ = {each.name: each.annotation for each in own}
        return in_shell


def _parameter(name: str, annotation: object, default: object) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)
