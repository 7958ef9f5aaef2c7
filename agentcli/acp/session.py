"""A session that an editor drives, with a thread of its own for all of its work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from acp.helpers import update_available_commands
from acp.schema import (
    AvailableCommand,
    AvailableCommandInput,
    AvailableCommandsUpdate,
    PermissionOption,
    SessionConfigOptionSelect,
    SessionModeState,
    StopReason,
    ToolCallUpdate,
    UnstructuredCommandInput,
)

from agentcli import interrupts
from agentcli.acp.editor import AnyUpdate, CannotAsk, Editor, EditorApprover
from agentcli.acp.prompts import Block, Prompt, read_prompt
from agentcli.acp.terms import (
    EFFORT,
    MODE,
    MODEL,
    SETTINGS,
    EditorServer,
    modes,
    options,
    stop_reason,
    with_servers,
)
from agentcli.acp.tool_calls import ToolCallView, fenced
from agentcli.acp.transport import Worker
from agentcli.acp.updates import SessionUpdates
from agentcli.agent.ending import Ending
from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.builders import UserQuestions, load_builder
from agentcli.app.configuration.config import require_unmanaged
from agentcli.app.configuration.trust import Answer
from agentcli.app.open_session import OpenSession
from agentcli.app.policy import SessionPolicy
from agentcli.app.user_commands import OwnCommands, own_commands, prompt_text, prompts, takes
from agentcli.errors import AgentError, ConfigError, TurnInterrupted, UsageError
from agentcli.events.progress import Notice
from agentcli.llm.roles import Roles
from agentcli.security.trust import Fingerprint, TrustState
from agentcli.sessions.finder import exists
from agentcli.sessions.session import SessionLog, Subscriber
from agentcli.system.homes import user_home
from agentcli.system.programs import user_environ
from agentcli.ui.text import printable

_OF_SERVERS = "mcp__"
_STOPPED = "Not started: the user stopped the turn instead of answering whether it may be."
_NOT_STARTED = "Not started: the user stopped the turn."
_TRUST, _NOT_NOW, _NEVER = "trust", "not-now", "never"


@dataclass(frozen=True)
class EditorCommand:
    """A built-in command. `run` does it and returns what was done, as Markdown; without one, `text`
    is what is said to the model. `takes` describes the text after the name."""

    help: str
    takes: str = ""
    run: Callable[[EditorSession, str], str] | None = None
    text: str = ""


@dataclass(frozen=True)
class SessionDefaults:
    """What all sessions begin with: `flags`, the settings from the command line by dotted key,
    `trust_text`, which describes what a folder brings along, and the built-in `commands`."""

    flags: Mapping[str, Any]
    trust_text: Callable[[Fingerprint, TrustState], Iterable[str]]
    commands: Mapping[str, EditorCommand]


def require_model(defaults: SessionDefaults) -> None:
    """Raise SetupNeeded if there is no model to use, ConfigError if the settings are wrong."""
    builder, _ = load_builder(user_home(user_environ()), defaults.flags)
    settings = builder.settings
    Roles.of(settings, builder.registry(), settings.model.name).chain("main").warm_up()


@dataclass(frozen=True)
class SessionPlace:
    """Where a session works, which other folders it may write to, and the editor's tool servers."""

    workspace: Path
    more_folders: tuple[str, ...] = ()
    servers: tuple[EditorServer, ...] = ()


class EditorSession:
    """A session of an editor. A new one is not on disk before its first prompt. Methods run on its
    `worker` and raise AgentError, unless they say otherwise."""

    def __init__(
        self, defaults: SessionDefaults, editor: Editor, folder: Path, place: SessionPlace
    ) -> None:
        self.id = folder.name
        self.width = 80
        """The most columns of a line in what a command shows."""
        self.worker = Worker(f"session {folder.name}")
        self.busy = False
        """Whether its thread has something to do. For the event loop."""
        self._stopping = False
        self.builder: AgentBuilder
        """Has the present settings; set by `begin` or `load`."""
        self.folder = folder
        self._defaults = defaults
        self._editor = editor
        self._place = place
        self._commands = Commands(self, defaults.commands)
        self._chosen: dict[str, Any] = {}
        """Settings that the user chose in the editor, by dotted key."""
        self._model = ""
        self.opened: OpenSession | None = None
        self._session: SessionLog | None = None
        self._updates: SessionUpdates | None = None
        self._refused: set[str] = set()
        self._notices: list[str] = []
        self._sealed = False
        """Whether the session was opened in plan mode, in which its sandbox writes nothing."""
        self._was_stopped = False

    # --- its life

    def begin(self) -> None:
        """Prepare a new session. Raises ConfigError if none can begin there, SetupNeeded without a
        model."""
        self.builder = self._load(None)
        self._model = self.builder.prepare(self.folder).models.chain("main").model

    def load(self, *, replay: bool) -> None:
        """Continue the session on disk; with `replay` the editor is sent its conversation. What a
        killed process left open is recorded as such, and not repeated."""
        self.builder = self._load(None)
        self._reopen(replay=replay)

    def prompt(self, blocks: Sequence[Block]) -> StopReason:
        """Work on a prompt, and return why the turn ended. Raises RequestError if it failed."""
        said = read_prompt(blocks, self._place.workspace, self.builder.why_unread)
        try:
            if self._commands.run(said):
                return "end_turn"
            return self._work_on(said)
        except TurnInterrupted:
            self._was_stopped = True
            return "cancelled"

    def _work_on(self, said: Prompt) -> StopReason:
        opened = self.open_session()
        if self._was_stopped:
            opened.session.abandon_pending(_STOPPED, _NOT_STARTED)
        self._was_stopped = False
        typed = said.typed
        said = self._commands.expanded(said, opened)
        opened.say(said.text(opened.context), said.image_urls, typed)
        ending = self._worked(opened)
        reason = stop_reason(ending)
        self._was_stopped = reason == "cancelled"
        if reason not in ("end_turn", "cancelled") and ending.content:
            self.show_note(ending.content)
        return reason

    def _worked(self, opened: OpenSession) -> Ending:
        try:
            return opened.work().ending
        except (AgentError, OSError):
            # The next prompt continues from what is stored, without what could not be recorded.
            self.close("failed")
            raise

    def close(self, reason: str = "ended") -> None:
        opened, self.opened = self.opened, None
        if opened is not None:
            opened.close(reason)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Make what its thread does within the block stoppable. For the event loop."""
        self.busy, self._stopping = True, False
        try:
            yield
        finally:
            self.busy = False
            # A stop that came when all was done.
            interrupts.cancel_stop(self.worker.thread)

    def stop(self, reason: TurnInterrupted) -> None:
        """Stop what is being done, as Ctrl-C would; but only once, as another stop would break off
        the handling of the first. For the event loop."""
        if self.busy and not self._stopping:
            self._stopping = True
            interrupts.stop_thread(self.worker.thread, reason)

    # --- open

    def open_session(self) -> OpenSession:
        """Return the session with all that works on it; create it if there is none yet."""
        opened = self.opened
        if opened is not None and self._sealed != self.builder.settings.agent.planning:
            self.close()
        if self.opened is None:
            if exists(self.folder):
                self._reopen(replay=False)
            else:
                self.builder = self._load(self._ask_trust)
                self._use(self.builder.create(self._subscribers, folder=self.folder))
        assert self.opened is not None
        return self.opened

    @property
    def session(self) -> SessionLog:
        """The session, opened if it is only stored. Raises UsageError before the first prompt."""
        if not exists(self.folder):
            raise UsageError("nothing was done yet", hint="say what is to be done")
        return self.open_session().session

    @contextmanager
    def session_at_rest(self) -> Iterator[SessionLog]:
        """Yield the session with no work running in it; the next prompt reopens it. Raises
        UsageError before the first prompt."""
        if not exists(self.folder):
            raise UsageError("nothing was done yet", hint="say what is to be done")
        self.close()
        with SessionLog.open(self.folder) as stored:
            yield stored

    def show_note(self, words: str) -> None:
        """Show the user a note that is not from the model."""
        if self._updates is not None:
            self._updates.show_note(words)

    def send(self, update: AnyUpdate) -> None:
        """Send an update. For any thread but that of the event loop."""
        self._editor.tell(self.id, update)

    def announce(self) -> None:
        """Send the list of commands; the editor must know the session by then."""
        self.send(self._commands.update(self.opened))

    def _reopen(self, *, replay: bool) -> None:
        def subscribers(session: SessionLog) -> Sequence[Subscriber]:
            following = self._subscribers(session)
            if replay and self._updates is not None:
                self._updates.replay()
            return following

        model = self._chosen.get(SETTINGS[MODEL])
        opened = self.builder.reopen(self.folder, subscribers, model, has_message=True)
        self._use(opened)

    def _use(self, opened: OpenSession) -> None:
        self.opened = opened
        self._sealed = self.builder.settings.agent.planning
        self._model = opened.session.state.model
        for notice in self._notices:
            opened.session.notify(Notice(notice))
        self._notices = []
        if opened.servers is not None:
            self.announce()

    def _subscribers(self, session: SessionLog) -> Sequence[Subscriber]:
        self._session = session
        self._updates = SessionUpdates(session, self._place.workspace, self.send, self._window)
        return [self._updates]

    def _window(self, model: str) -> int:
        settings = self.builder.settings
        return settings.model.context_tokens or self.builder.catalog().context_tokens(model)

    # --- settings

    def set_mode(self, mode: str) -> None:
        """Set the mode from the next action on. Between plan and another mode the sandbox changes
        too, with the next prompt. For any thread. Raises ConfigError."""
        require_unmanaged(SETTINGS[MODE], self.builder.origins)
        self._chosen[SETTINGS[MODE]] = mode
        settings = self.builder.settings.changed(agent={"approval": mode})
        self.builder = replace(self.builder, settings=settings)
        if self.opened is not None:
            self.opened.policy.set_mode(mode)

    def set_model(self, name: str) -> None:
        """Set the model from the next request on; a part of a name will do if it fits only one.
        Raises ConfigError, after which nothing is changed."""
        self._change(MODEL, name)
        if self.opened is not None:
            self._model = self.opened.session.state.model

    def set_effort(self, effort: str) -> None:
        """Set the effort from the next request on."""
        self._change(EFFORT, effort)

    def _change(self, option: str, value: str) -> None:
        key = SETTINGS[option]
        require_unmanaged(key, self.builder.origins)
        before = self.builder, dict(self._chosen)
        self._chosen[key] = value
        try:
            self.builder = self._load(None)
            if self.opened is not None:
                self.builder.use_model(self.opened, self._chosen.get(SETTINGS[MODEL], self._model))
            else:
                self._model = self.builder.prepare(self.folder).models.chain("main").model
        except ConfigError:
            self.builder, self._chosen = before
            raise

    def modes(self) -> SessionModeState:
        """Return the modes. For any thread."""
        return modes(self.builder.settings.agent.approval)

    def options(self, models: Sequence[str] = ()) -> list[SessionConfigOptionSelect]:
        settings = self.builder.settings
        known = (*settings.model.fallback, *models)
        return options(settings.agent.approval, self._model, settings.model.effort, known)

    def _load(self, ask_trust: Callable[[Fingerprint, TrustState], Answer] | None) -> AgentBuilder:
        place, flags = self._place, {**self._defaults.flags, **self._chosen}
        if place.more_folders:
            writable = [*flags.get("sandbox.writable", ()), *place.more_folders]
            flags["sandbox.writable"] = writable
        questions = UserQuestions(ask_trust, lambda settings: self._approver)
        builder, notices = load_builder(place.workspace, flags, questions, interactive=True)
        self._notices = list(notices)
        settings = with_servers(builder.settings, place.servers, self._notices)
        return replace(builder, settings=settings)

    # --- questions

    def _approver(
        self, offers: SessionPolicy, current_text: Callable[[str], str | None]
    ) -> EditorApprover:
        session, updates = self._session, self._updates
        assert session is not None
        assert updates is not None

        def masked_text(path: str) -> str | None:
            text = current_text(path)
            return None if text is None else str(session.redact(text))

        def stopping() -> None:
            # Editors say it twice: by this answer, and by a request to stop the turn.
            self._stopping = True

        return EditorApprover(
            self._editor,
            self.id,
            updates,
            ToolCallView(self._place.workspace),
            offers,
            masked_text,
            self._refused,
            stopping,
            # The first approver is made while the session opens; all later ones are for children.
            of_child=self.opened is not None,
        )

    def _ask_trust(self, found: Fingerprint, state: TrustState) -> Answer:
        """Ask whether the user trusts what the folder brings along; "no" if they can't be
        asked."""
        call = ToolCallUpdate(
            tool_call_id=_TRUST,
            title="Trust what this folder brings along?",
            kind="other",
            status="pending",
            content=[fenced("\n".join(self._defaults.trust_text(found, state)))],
        )
        try:
            chosen = self._editor.ask_beside(
                self.id,
                call,
                [
                    PermissionOption(option_id=_TRUST, name="Trust it", kind="allow_always"),
                    PermissionOption(option_id=_NOT_NOW, name="Not this time", kind="reject_once"),
                    PermissionOption(option_id=_NEVER, name="Never", kind="reject_always"),
                ],
            )
        except CannotAsk:
            return "no"
        answers: dict[str, Answer] = {_TRUST: "yes", _NEVER: "never"}
        return answers.get(chosen, "no")


class Commands:
    """The commands of one session."""

    def __init__(self, session: EditorSession, built_in: Mapping[str, EditorCommand]) -> None:
        self._session = session
        self._built_in = built_in

    def run(self, said: Prompt) -> bool:
        """Run what was said if it is a command that acts by itself, and return whether it is. Other
        text goes to the model. Raises AgentError, RequestError, TurnInterrupted."""
        name, _, argument = said.typed.removeprefix("/").partition(" ")
        if (
            not said.typed.startswith("/")
            or not (found := self._built_in.get(name))
            or not found.run
        ):
            return False
        self._session.show_note(found.run(self._session, argument.strip()))
        return True

    def expanded(self, said: Prompt, opened: OpenSession) -> Prompt:
        """Replace a command by the text that it stands for. Skills are expanded elsewhere."""
        name, _, argument = said.typed.removeprefix("/").partition(" ")
        if not said.typed.startswith("/"):
            return said
        if (built_in := self._built_in.get(name)) is not None:
            return replace(said, typed=f"{built_in.text.rstrip()}\n\n{argument}".rstrip())
        if (own := self._own().commands.get(name)) is not None:
            return replace(said, typed=own.text(argument))
        if name.startswith(_OF_SERVERS) and opened.servers is not None:
            text = prompt_text(opened.servers, name, argument)
            return said if text is None else replace(said, typed=text)
        return said

    def update(self, opened: OpenSession | None) -> AvailableCommandsUpdate:
        """Return the update that lists all commands with their help."""
        return update_available_commands(
            [
                AvailableCommand(
                    name=name,
                    description=printable(about, multiline=False) or name,
                    input=_input(hint),
                )
                for name, about, hint in self._listed(opened)
            ]
        )

    def _listed(self, opened: OpenSession | None) -> Iterator[tuple[str, str, str]]:
        yield from ((name, each.help, each.takes) for name, each in self._built_in.items())
        own = self._own()
        for name, command in own.commands.items():
            yield name, command.description, command.takes
        for skill in own.callable_skills():
            yield skill.name, skill.description, ""
        servers = opened.servers if opened is not None else None
        for name, server, prompt in prompts(servers) if servers is not None else ():
            yield name, f"{server}: {prompt.description}", takes(prompt)

    def _own(self) -> OwnCommands:
        builder = self._session.builder
        try:
            return own_commands(
                builder.environ,
                builder.workspace,
                builder.settings.knowledge,
                tuple(self._built_in),
            )
        except ConfigError:
            return OwnCommands()


def _input(hint: str) -> AvailableCommandInput | None:
    if not hint:
        return None
    return AvailableCommandInput(UnstructuredCommandInput(hint=printable(hint, multiline=False)))
