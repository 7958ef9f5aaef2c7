"""A session with everything that works on it: closed whole, whatever fails on the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agentcli.agent.agent import Agent
from agentcli.app import git_watch, knowledge, named_paths
from agentcli.app.policy import SessionPolicy
from agentcli.app.required import Required
from agentcli.app.tool_context import remove_scratch
from agentcli.errors import SessionError, UsageError
from agentcli.events import Event, Source
from agentcli.events.actions import MessageAction
from agentcli.events.progress import Notice
from agentcli.files.images import ImageFault
from agentcli.files.scaling import fitted_message
from agentcli.hooks.session_hooks import SessionHooks
from agentcli.knowledge.knowledge import Knowledge
from agentcli.llm.image_limits import image_limits
from agentcli.sandbox.named_paths import paths_named
from agentcli.sessions.session import Session
from agentcli.shell.jobs import Job
from agentcli.tools.base import ToolContext

if TYPE_CHECKING:
    from agentcli.mcp.servers import ToolServers
    from agentcli.sandbox.loopback import OpenPort


@dataclass
class OpenSession:
    """`close` ends the shell and lets the lock go; a session that was begun (`fresh`) and never got
    its task goes away with it, as there is nothing to go on with."""

    session: Session
    agent: Agent
    context: ToolContext
    knowledge: Knowledge
    policy: SessionPolicy
    hooks: SessionHooks | None = None
    notices: Sequence[str] = ()
    fresh: bool = False
    open_ports: dict[int, OpenPort] = field(default_factory=dict)
    """Of servers that its commands have started, which the person reaches."""
    servers: ToolServers | None = None
    """Of tools, if there are any."""
    _begun: bool = field(default=False, init=False)
    """The hooks know of the session, so they must hear of its end."""

    def say(
        self,
        text: str,
        image_urls: Sequence[str] = (),
        typed: str = "",
        required: Required | None = None,
    ) -> None:
        """Record a message of the user and what it brings up, with the first one what the workspace
        is like; of images what the model sees of them. `typed` is what of it they wrote
        themselves, and may name what the session is to be shown of /tmp: piped text and outputs of
        commands may not. `required` is what the work on it must come to. Raises UsageError when it
        calls a task without its inputs, its images can't go to a model or a check holds a secret,
        SessionError when a hook of the user does not let it pass."""
        knowledge.check_call(self.knowledge, text)
        self._require_no_secret(required)
        if self.hooks is not None and (why := self.hooks.submitting(self.session, text)):
            raise SessionError(f"a hook refused the message: {why}")
        if self.agent.children is not None:
            self.agent.children.give_up()
        named = paths_named(typed)
        if self.servers is not None:
            from agentcli.app.server_mentions import with_resources

            text, pictures = with_resources(self.servers, self.context, text, typed)
            image_urls = [*image_urls, *pictures]
        text, image_urls = with_images(text, image_urls, self.session.state.model)
        message = MessageAction(
            content=text,
            source=Source.USER,
            image_urls=tuple(image_urls),
            file_urls=tuple(path.as_uri() for path in named),
        )
        events: list[Event] = [message]
        if required is not None:
            events = [required.recorded, message, *required.told]
        self.session.emit_group(events)
        self.fresh = False
        named_paths.show(named, self.session, self.context)
        self.knowledge.recall(self.session)

    def require(self, required: Required | None) -> None:
        """Record what the work that is left must come to, unless that holds already."""
        self._require_no_secret(required)
        if required is not None and not required.holds(self.session.state):
            self.session.emit_group([required.recorded, *required.told])

    def _require_no_secret(self, required: Required | None) -> None:
        """What is run is what is on record, where secrets are masked."""
        check = required.recorded.check if required is not None else ""
        if self.session.redact(check) != check:
            raise UsageError(
                "the check has a secret in it, which no session keeps",
                hint="name a variable of the environment in it instead, which commands may see: "
                '[sandbox] environment = ["NAME"]',
            )

    def begin(self, *, resumed: bool) -> None:
        """The session is open and whoever follows it is there."""
        for notice in self.notices:
            self.session.notify(Notice(notice))
        git_watch.begin(self.agent, self.session, self.context)
        if self.hooks is not None:
            self._begun = True
            self.hooks.started(self.session, resumed=resumed)

    def running_jobs(self) -> list[Job]:
        """Commands in the background, which `close` would end."""
        return [job for job in self.context.shell.jobs if not job.look()]

    def close(self, reason: str = "ended") -> None:
        """`reason` is for the hooks: how the turn ended."""
        with ExitStack() as stack:
            stack.callback(close_session, self.session, fresh=self.fresh)
            stack.callback(remove_scratch, self.session)
            stack.callback(git_watch.end, self.agent, self.session, self.context)
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

    @contextmanager
    def closed_on_failure(self) -> Iterator[None]:
        """For a block that leaves the session to others when it ends well."""
        try:
            yield
        except BaseException:
            self.close("failed")
            raise


def with_images(text: str, urls: Sequence[str], model: str) -> tuple[str, tuple[str, ...]]:
    """A message with its images as large as `model` sees them, and told how they were scaled.
    Raises UsageError."""
    try:
        return fitted_message(text, urls, image_limits(model))
    except ImageFault as fault:
        hint = "make it smaller, or tell the model where it is: it can read files"
        raise UsageError(str(fault), hint=hint) from fault


def close_session(session: Session, *, fresh: bool) -> None:
    """Close a session; one that was begun and has no task is removed."""
    if fresh and not any(_is_task(event) for event in session.events):
        session.discard()
    else:
        session.close()


def _is_task(event: object) -> bool:
    return isinstance(event, MessageAction) and event.source is Source.USER
