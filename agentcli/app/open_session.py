"""A session with everything that works on it: all of it is closed, whatever fails on the way."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from agentcli import interrupts
from agentcli.agent.agent import Agent
from agentcli.agent.ending import TurnResult
from agentcli.agent.loop import run_turn
from agentcli.app import attachments, knowledge, session_tools
from agentcli.app.attachments import with_images
from agentcli.app.policy import SessionPolicy
from agentcli.app.requirements import RequirementSpec
from agentcli.app.session_tools import remove_scratch
from agentcli.errors import SessionError, TurnInterrupted, UsageError
from agentcli.events import Source
from agentcli.events.actions import AgentDelegateAction, MessageAction, is_user_message
from agentcli.events.progress import Notice
from agentcli.hooks.session_hooks import SessionHooks
from agentcli.knowledge.knowledge import Knowledge
from agentcli.sandbox.scope_finder import paths_named
from agentcli.sessions.session import SessionLog
from agentcli.shell.jobs import Job
from agentcli.tools.base import ToolContext

if TYPE_CHECKING:
    from agentcli.mcp.servers import ToolServers
    from agentcli.sandbox.loopback import OpenPort

_MOST_NAMED = 20
_CTRL_C = 130


@dataclass
class OpenSession:
    """An open session, as a program, a terminal, an editor, a worker of a batch and a parent drive
    it: `say` something, let it `work` a turn, `close` it. That ends the shell and releases the
    lock; a new session (`fresh`) that never got its task is removed, as there is nothing to
    continue."""

    session: SessionLog
    agent: Agent
    context: ToolContext
    knowledge: Knowledge
    policy: SessionPolicy
    hooks: SessionHooks | None = None
    notices: Sequence[str] = ()
    fresh: bool = False
    open_ports: dict[int, OpenPort] = field(default_factory=dict)
    """Ports of servers that the session's commands started, opened for the user."""
    servers: ToolServers | None = None
    """The tool servers, if there are any."""
    result: TurnResult | None = field(default=None, init=False)
    """The result of the newest turn."""
    is_interrupted: bool = field(default=False, init=False)
    """Whether `interrupt` ended the newest turn."""
    _working: threading.Thread | None = field(default=None, init=False)
    """The thread that works on a turn."""
    _begun: bool = field(default=False, init=False)
    """Whether the hooks know of the session, so that they must be told when it ends."""

    def say(
        self,
        text: str,
        image_urls: Sequence[str] = (),
        typed: str = "",
        required: RequirementSpec | None = None,
    ) -> None:
        """Record a message of the user and the knowledge it calls for; with the first one, the
        facts about the workspace too. Images are recorded as the model sees them. `typed` is the
        part that the user typed: only that may name what to show the session of /tmp, piped text
        and outputs of commands may not. `required` is what must hold before the work on it counts
        as done. Raises UsageError if it calls a task without its inputs, its images can't go to a
        model or a check contains a secret, SessionError if a hook refuses it."""
        knowledge.check_call(self.knowledge, text)
        self._require_no_secret(required)
        if self.hooks is not None and (why := self.hooks.submitting(self.session, text)):
            raise SessionError(f"a hook refused the message: {why}")
        pending = self.session.pending_actions()
        if self.agent.children and any(isinstance(a, AgentDelegateAction) for a in pending):
            self.agent.children().give_up()
        named = paths_named(typed)
        if self.servers is not None:
            from agentcli.app.user_commands import with_resources

            text, pictures = with_resources(self.servers, self.context, text, typed)
            image_urls = [*image_urls, *pictures]
        text, image_urls = with_images(text, image_urls, self.session.state.model)
        message = MessageAction(
            content=text,
            source=Source.USER,
            image_urls=tuple(image_urls),
            file_urls=tuple(path.as_uri() for path in named),
        )
        before, after = ([required.recorded], required.messages) if required else ([], ())
        self.session.emit_group([*before, message, *after])
        self.fresh = False
        attachments.show(named, self.session, self.context)
        self.knowledge.inform(self.session)

    def work(self) -> TurnResult:
        """Work one turn on what was said; the result says how it ended. Raises SessionError, and
        KeyboardInterrupt after Ctrl-C in a program that leaves it to Python."""
        self.is_interrupted = False
        with (
            interrupts.stoppable_thread() as self._working,
            interrupts.ctrl_c_interrupts() as heard,
        ):
            try:
                self.result = run_turn(self.agent, self.session)
            finally:
                self._working = None
        if heard and not self.is_interrupted and self.result.exit_code == _CTRL_C:
            raise KeyboardInterrupt
        return self.result

    @property
    def is_working(self) -> bool:
        return self._working is not None

    def interrupt(self) -> bool:
        """End the turn that is going on, which then has the result of an interrupted one. May be
        called from any thread; returns False if no turn is going on."""
        thread = self._working
        self.is_interrupted = thread is not None
        if thread is threading.main_thread():
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        elif thread is not None:
            interrupts.stop_thread(thread, TurnInterrupted("interrupted", _CTRL_C))
        return self.is_interrupted

    def require(self, required: RequirementSpec | None) -> None:
        """Record what is required of the work that is left, unless it is required already."""
        self._require_no_secret(required)
        if required is not None and not required.holds(self.session.state):
            self.session.emit_group([required.recorded, *required.messages])

    def _require_no_secret(self, required: RequirementSpec | None) -> None:
        """Raise UsageError if the check has a secret: it runs as recorded, where secrets are
        masked."""
        check = required.recorded.check if required is not None else ""
        if self.session.redact(check) != check:
            raise UsageError(
                "the check contains a secret, which no session keeps",
                hint="use an environment variable instead, and let commands see it: "
                '[sandbox] environment = ["NAME"]',
            )

    def begin(self, *, resumed: bool) -> None:
        """Finish opening, once the session's subscribers are there."""
        self._report_servers()
        for notice in self.notices:
            self.session.notify(Notice(notice))
        session_tools.begin(self.agent, self.session, self.context)
        if self.hooks is not None:
            self._begun = True
            self.hooks.started(self.session, resumed=resumed)

    def _report_servers(self) -> None:
        """Tell the model which servers are left out, and which of its tools no longer exist."""
        session, agent = self.session, self.agent
        lines = list(self.servers.faults()) if self.servers is not None else []
        of_servers = (s.name for s in agent.schemas if s.name.startswith("mcp"))
        if gone := [name for name in of_servers if not agent.tools.has(name)]:
            lines.append(f"these tools no longer exist: {', '.join(gone[:_MOST_NAMED])}")
        for line in lines:
            session.notify(Notice(line))
        if lines:
            session.emit(MessageAction(content=f"[{'; '.join(lines)}]", source=Source.ENVIRONMENT))

    def running_jobs(self) -> list[Job]:
        """Return the commands in the background that `close` would end."""
        return [job for job in self.context.shell.jobs if not job.look()]

    def close(self, reason: str = "") -> None:
        """Close everything. `reason` tells the hooks how the work ended; by default as the newest
        turn did."""
        reason = reason or (self.result.ending.reason if self.result else "failed")
        with ExitStack() as stack:
            stack.callback(close_session, self.session, fresh=self.fresh)
            stack.callback(remove_scratch, self.session)
            stack.callback(session_tools.end, self.agent, self.session, self.context)
            stack.callback(self.context.python.close)
            stack.callback(self.context.shell.close)
            if self.servers is not None:
                stack.callback(self.servers.close)
            if self.context.browser is not None:
                stack.callback(self.context.browser.close)
            for opened in self.open_ports.values():
                stack.callback(opened.close)
            if self.hooks is not None and self._begun:
                self._begun = False
                self.hooks.ended(self.session, reason)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @contextmanager
    def closed_on_failure(self) -> Iterator[None]:
        """Close the session if the block fails; otherwise it is left open for someone else."""
        try:
            yield
        except BaseException:
            self.close("failed")
            raise


def close_session(session: SessionLog, *, fresh: bool) -> None:
    """Close a session; remove it if it is new and has no task."""
    if fresh and not any(map(is_user_message, session.events)):
        session.discard()
    else:
        session.close()
