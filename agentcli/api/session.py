"""The session that programs drive."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self, Unpack

from agentcli.agent.ending import TurnResult
from agentcli.app.attachments import attached
from agentcli.app.open_session import OpenSession
from agentcli.app.requirements import RequirementSpec
from agentcli.errors import UsageError
from agentcli.events import Event, Progress
from agentcli.sessions.state import AgentState, State

if TYPE_CHECKING:
    from agentcli.api.options import Images, Respond, SessionOptions
    from agentcli.api.streaming import SessionStreams


class Session:
    """A session as programs drive it: `agentcli.Session`. It checks what a program gives, and wraps
    an OpenSession, which does the work.

    Use it as a context manager or `close` it: until then no other process can use it.

    It works on the thread that calls it, and its commands end with the thread that opened it.
    Several sessions may be open at once, each on a thread of its own. Signals are left to the
    program, except Ctrl-C during a turn in the main thread: it raises KeyboardInterrupt once the
    turn is recorded, and the session can continue.
    """

    def __init__(
        self,
        opened: OpenSession,
        respond: Respond | None = None,
        required: RequirementSpec | None = None,
    ) -> None:
        """`respond` answers a message that hands over to the user; None ends the exchange.
        `required` is what the work on each of the program's messages must come to."""
        self._opened = opened
        self._respond = respond
        self._required = required
        self._is_closed = False
        self._streams: SessionStreams | None = None

    @classmethod
    def open(cls, **options: Unpack[SessionOptions]) -> Session:
        """Open a new session, or with `session_id` an existing one. Raises UsageError for wrong
        options, ConfigError if there is no model, key or sandbox, SessionError if the session can't
        be read or written."""
        from agentcli.api.opening import open_session

        return cls(*open_session(options))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # --- what it is

    @property
    def id(self) -> str:
        return self._opened.session.id

    @property
    def events(self) -> Sequence[Event]:
        """All recorded events so far."""
        return self._opened.session.events

    @property
    def state(self) -> State:
        """What follows from the events: totals, cost, title, folder."""
        return self._opened.session.state

    @property
    def result(self) -> TurnResult | None:
        """The result of the newest turn."""
        return self._opened.result

    # --- what is done

    def send(self, message: str, images: Images = ()) -> TurnResult:
        """Send `message`, with files of images, and let the agent work until its turn is over. The
        result says how it ended, also at a limit or after a failure of the model. Raises UsageError
        if the message can't be sent or the session is at work or closed, SessionError if it can't
        be written."""
        self.say(message, images)
        return self.go_on()

    def go_on(self) -> TurnResult:
        """Continue with what is left, for example after a limit, an interrupt or a failure of the
        provider."""
        self._require_idle()
        result = self._opened.work()
        while self._respond is not None and not self._opened.is_interrupted:
            if result.ending.agent_state is not AgentState.AWAITING_USER_INPUT:
                break
            if (said := self._respond(result.answer)) is None:
                break
            self.say(said)
            result = self._opened.work()
        return result

    def stream(
        self, message: str, images: Images = ()
    ) -> Generator[Event | Progress, None, TurnResult]:
        """Send as `send` does, and yield what happens: events, which are recorded, and progress
        between them, such as pieces of text. `result` says how it ended. Leaving the loop
        interrupts the agent."""
        from agentcli.api.streaming import SessionStreams

        self._require_idle()
        if self._streams is None:
            self._streams = SessionStreams(self._opened.session)
        return self._streams.stream(lambda: self.send(message, images), self.interrupt)

    def say(self, message: str, images: Images = ()) -> None:
        """Record a message for `go_on` to work on."""
        self._require_idle()
        if not isinstance(message, str):
            raise UsageError(f"a message is text, and this is {message!r}")
        if isinstance(images, (str, Path)):
            raise UsageError("images is a list of files", hint=f"write [{str(images)!r}]")
        urls = attached([Path(image) for image in images], self._opened.policy.why_unread)
        if not message.strip() and not urls:
            raise UsageError("the message is empty")
        self._opened.say(message, urls, message, self._required)

    def interrupt(self) -> bool:
        """End the turn that is going on, which then has the result of an interrupted one. May be
        called from any thread; returns False if no turn is going on."""
        return self._opened.interrupt()

    def close(self) -> None:
        """End what its commands left running, and let other processes use the session. Raises
        UsageError if its own turn calls this, or another thread while it is at work."""
        if self._is_closed:
            return
        if self._streams is not None and not self._streams.is_here():
            self._streams.stop(self.interrupt)
        self._require_idle()
        self._is_closed = True
        self._opened.close()
        if self._streams is not None:
            self._streams.close()

    def _require_idle(self) -> None:
        if self._is_closed:
            hint = f"agentcli.Session.open(session_id={self.id!r}) goes on with it"
            raise UsageError("the session is closed", hint=hint)
        if self._streams is not None and self._streams.is_open and not self._streams.is_here():
            hint = "go through it to its end, leave its loop, or close() it"
            raise UsageError("a stream of the session is not over", hint=hint)
        if self._opened.is_working:
            raise UsageError("the session is at work", hint="another one may be opened beside it")


def run(task: str, *, images: Images = (), **options: Unpack[SessionOptions]) -> TurnResult:
    """Do `task` in a session with these options, and close it. The result says how the task ended.
    Raises as `Session.open` and `Session.send` do."""
    with Session.open(**options) as session:
        return session.send(task, images)
