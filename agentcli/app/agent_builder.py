"""The only file that knows every part: assembles a session and an agent from settings."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcli import __version__
from agentcli.agent.agent import Agent, Approver
from agentcli.agent.run_limits import Limits
from agentcli.app import knowledge, memory, named_paths
from agentcli.app.asking import asking
from agentcli.app.budget import limits_of, require_prices
from agentcli.app.checkpoints import policy_and_checkpointer
from agentcli.app.checks.requirement_spec import RequirementSpec
from agentcli.app.checks.requirements import requirements
from agentcli.app.configuration.keys import stored_keys
from agentcli.app.delegation.agents import KnownAgents, agents_of
from agentcli.app.delegation.child_parent import ApproverFactory, Parent
from agentcli.app.delegation.child_role import ChildRole, tools_allowed
from agentcli.app.delegation.lazy_children import LazyChildren
from agentcli.app.editor import ask_editor
from agentcli.app.hooks import (
    NO_PROJECT_HOOKS,
    HookContext,
    ProjectHooks,
    free_environment,
    session_hooks,
)
from agentcli.app.judge import ask_judge
from agentcli.app.open_session import OpenSession, close_session
from agentcli.app.policy.parts import PolicyParts
from agentcli.app.policy.session_policy import SessionPolicy, check_rules
from agentcli.app.resume import (
    change_messages,
    end_survivors,
    last_writable,
    require_work,
    stored_schemas,
)
from agentcli.app.sandbox import Containment
from agentcli.app.tool_context import tool_context
from agentcli.app.tool_servers import report_servers, session_tools, start_servers
from agentcli.app.workspace_warnings import NameFolders, with_named_folders
from agentcli.events import Source
from agentcli.events.actions import MessageAction, SystemMessageAction
from agentcli.events.observations import (
    CHOSEN,
    ModelSwitchedObservation,
    SessionStartedObservation,
)
from agentcli.files.access_scope import TMP
from agentcli.files.written_places import written_places
from agentcli.hooks.session_hooks import SessionHooks
from agentcli.interrupts import shield
from agentcli.knowledge.knowledge import Knowledge
from agentcli.knowledge.notes import Notes
from agentcli.knowledge.workspace_facts import WorkspaceFacts
from agentcli.llm.registry import Providers
from agentcli.llm.roles import Roles
from agentcli.logs import log_to
from agentcli.memory.prefix import PrefixCheck
from agentcli.security.redact import Redactor
from agentcli.security.secret_variables import masked_values
from agentcli.sessions.file_store import was_opened_here
from agentcli.sessions.search.finder import new_folder
from agentcli.sessions.session import Session, Subscriber
from agentcli.sessions.state import State
from agentcli.sessions.write_faults import writing_to
from agentcli.settings import Settings
from agentcli.system import programs
from agentcli.system.homes import state_home, user_home
from agentcli.tools.base import Tool, ToolContext
from agentcli.tools.collection import ToolCollection

if TYPE_CHECKING:
    from agentcli.mcp.servers import ToolServers


@dataclass(frozen=True)
class Prepared:
    """The parts of a session that depend on settings, checked before the session exists. `notices`
    are for the user."""

    folder: Path
    redactor: Redactor
    registry: Providers
    models: Roles
    containment: Containment
    notices: Sequence[str]
    system_text: str = ""
    """The system text, for a new session only."""


@dataclass(frozen=True)
class AgentBuilder:
    """Creates and opens sessions under these settings."""

    settings: Settings
    environ: Mapping[str, str]
    workspace: Path
    make_approver: ApproverFactory | None = None
    """None if nobody can be asked."""
    project_hooks: ProjectHooks = NO_PROJECT_HOOKS
    """The hooks of the trusted project."""
    interactive: bool = False
    name_folders: NameFolders | None = None
    """Asks which folders may be written to, if the workspace is or holds the home folder; None:
    none of them, as nobody is asked."""
    project_agents: Mapping[str, bytes] = field(default_factory=dict)
    """The files of the trusted project that define agents, by their path in it."""
    role: ChildRole | None = None
    """The role of a child, to which another session delegates a task."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Where each setting that is not at its default was set."""
    more_tools: Sequence[Tool[Any]] = ()
    """Tools of the program that drives the session."""

    def __post_init__(self) -> None:
        """Run no program of ours from a place that commands of a session may write to."""
        sandbox = self.settings.sandbox
        shared = (TMP,) if sandbox.share_tmp else ()
        writable = (*sandbox.writable, *shared, *written_places(self.home))
        programs.distrust((self.workspace, self.home, *writable))

    @property
    def home(self) -> Path:
        return state_home(self.environ)

    def registry(self, learn: Callable[[str], None] = lambda key: None) -> Providers:
        """Return the providers; `learn` is called with each key that will be used."""
        kept = stored_keys(self.environ)
        exported = {name: value for name, value in self.environ.items() if value}
        return Providers(
            self.settings.providers,
            {**kept.values, **exported},
            learn,
            key_fault=kept.fault,
            connect_timeout_s=self.settings.llm.connect_s,
            read_timeout_s=max(self.settings.llm.first_byte_s, self.settings.llm.gap_s) + 5,
        )

    def prepare(self, folder: Path | None = None) -> Prepared:
        """Prepare a new session, in `folder` if given, before anything of it is on disk. Raises
        ConfigError if no session can begin under these settings."""
        ready = self._prepared(folder or new_folder(self.home), self.settings.model.name, State())
        return replace(ready, system_text=self._system_text(ready))

    def create(
        self,
        subscribers: Callable[[Session], Sequence[Subscriber]],
        name: str | None = None,
        ready: Prepared | None = None,
        folder: Path | None = None,
    ) -> OpenSession:
        """Create a new session, in `folder` if given. Raises ConfigError if there is no model,
        SessionError if the session can't be written; then nothing of it is left."""
        ready = ready or self.prepare(folder)
        with ExitStack() as undo, writing_to(ready.folder):
            with shield():
                session = Session.create(ready.folder)
                undo.callback(close_session, session, fresh=True)
            _subscribe(session, subscribers)
            servers = start_servers(ready.containment, session, ready.redactor.learn, undo)
            opened = self._open(session, ready, servers)
            opened.fresh = True
            self._bring_up(opened, undo)
            session.emit(self._started(session, ready, name=name))
            session.emit(
                SystemMessageAction(
                    content=ready.system_text,
                    tools=tuple(asdict(schema) for schema in opened.agent.schemas),
                    source=Source.ENVIRONMENT,
                )
            )
            report_servers(opened)
            opened.begin(resumed=False)
            undo.pop_all()
        return opened

    def reopen(
        self,
        folder: Path,
        subscribers: Callable[[Session], Sequence[Subscriber]],
        model: str | None = None,
        *,
        has_message: bool = False,
        required: RequirementSpec | None = None,
    ) -> OpenSession:
        """Open an existing session to continue it, with its own model unless `model` names another.
        Raises UsageError if another process holds it or nothing is left to do, unless a message is
        about to come (`has_message`) or more is now `required` of it; SessionError if it is
        damaged."""
        with ExitStack() as undo, writing_to(folder):
            was_here = was_opened_here(folder)
            with shield():
                session = Session.open(folder)
                undo.callback(session.close)
            more = has_message or (required is not None and not required.holds(session.state))
            stored = require_work(session, more, interactive=self.interactive)
            end_survivors(session.id, self.environ)
            _subscribe(session, subscribers)
            before = last_writable(session.events, str(self.workspace))
            model = model or session.state.model
            ready = self._prepared(folder, model, session.state, before)
            servers = start_servers(ready.containment, session, ready.redactor.learn, undo)
            opened = self._open(session, ready, servers, stored)
            self._bring_up(opened, undo)
            facts = ready.containment.facts()
            changed = list(change_messages(session, self.workspace, facts, was_here=was_here))
            session.emit(self._started(session, ready, resumed=True))
            for told in changed:
                session.emit(MessageAction(content=told, source=Source.ENVIRONMENT))
            report_servers(opened)
            opened.begin(resumed=True)
            if not has_message:
                opened.knowledge.recall(session)
            undo.pop_all()
        return opened

    def _prepared(
        self, folder: Path, model: str, state: State, before: Sequence[str] | None = None
    ) -> Prepared:
        """Prepare the session in `folder`, which need not exist yet. `before` are the folders it
        could write to when it was left. Raises ConfigError."""
        redactor = Redactor(masked_values(self.environ))
        registry = self.registry(redactor.learn)
        redactor.learn(*registry.keys())
        models = Roles.of(self.settings, registry, model)
        models.chain("main").warm_up()
        require_prices(self.settings, models, state, self._budget(state))
        memory.check(self.settings, models)
        containment = self._containment(folder, registry, before)
        containment.require_named_folders()
        rules = check_rules(self.settings, self.environ, self.workspace)
        notices = (*rules, *containment.notices())
        return Prepared(folder, redactor, registry, models, containment, notices)

    def _system_text(self, ready: Prepared) -> str:
        text = knowledge.system_text(
            self.settings,
            self.home,
            ready.models.chain("main").model,
            ready.containment.facts(),
            watched=self.interactive,
            askable=self.make_approver is not None and self.role is None,
        )
        return self.role.system_text(text) if self.role else text

    def _open(
        self,
        session: Session,
        ready: Prepared,
        servers: ToolServers | None,
        stored: SystemMessageAction | None = None,
    ) -> OpenSession:
        """Return `session` with all that works on it; `stored` has the tools it was begun with."""
        models, containment = ready.models, ready.containment
        session.redact = ready.redactor
        if self.role is None:
            log_to(session.folder / "log", session.redact, whole=programs.is_own_process())
        main = models.chain("main")
        context = tool_context(
            self.settings, self.workspace, self.home, session, containment, main.model
        )
        notes = knowledge.add_knowledge_tools(
            context, session, self.settings, ready.redactor, containment.scope.home
        )
        level = self.role.level if self.role else session.state.delegate_level
        agents = self.agents(level)
        tools = self._tools(ready, session, context, servers, agents, stored)
        schemas = stored_schemas(stored) if stored else tools.schemas()
        hooks = self.hooks(session, containment)
        limits = self.limits(session.state)
        judge = ask_judge(models, session, limits)
        context.ask_editor = ask_editor(models, session, limits, self.settings.model.output_tokens)
        place = (self.settings, self.environ, self.workspace)
        parts = PolicyParts(*place, containment.sandbox, tools, context, judge)
        policy, checkpointer = policy_and_checkpointer(parts, session, agents.changes_files)
        known = self._knowledge(notes, containment)
        model = self.settings.model
        of_user = (containment.settings, self.make_approver, self._for_child)
        parent = Parent(*of_user, session, containment, policy, limits, level)
        agent = Agent(
            llm=main,
            memory=memory.build_memory(self.settings, models, schemas, session, limits),
            tools=tools,
            schemas=schemas,
            policy=policy,
            limits=limits,
            prefix=PrefixCheck(),
            approver=self._approver(policy, context, session),
            checkpointer=checkpointer,
            git=context.git,
            hooks=hooks,
            requirements=requirements(self.settings.run, containment, session, checkpointer),
            children=LazyChildren(parent, agents) if tools.has("delegate") else None,
            save_rule=policy.save_rule,
            recall=_after_message(known, context),
            last_notes=knowledge.last_notes(schemas, self.settings),
            max_output_tokens=model.output_tokens,
            effort=model.effort or None,
            temperature=None if model.temperature == "" else model.temperature,
            interactive=self.interactive,
        )
        notices = (*ready.notices, *agents.notices)
        return OpenSession(session, agent, context, known, policy, hooks, notices, servers=servers)

    def _tools(
        self,
        ready: Prepared,
        session: Session,
        context: ToolContext,
        servers: ToolServers | None,
        agents: KnownAgents,
        stored: SystemMessageAction | None,
    ) -> ToolCollection:
        """Return the tools that the session may use; `stored` has those it had, if it continues."""
        allows = tools_allowed(self.role, stored, session.state)
        return session_tools(
            self.settings,
            context,
            servers,
            ready.models.chain("main").model,
            lambda every: agents.offered([*every, *self.more_tools], allows),
        )

    def _approver(
        self, policy: SessionPolicy, context: ToolContext, session: Session
    ) -> Approver | None:
        """Return None if nobody can be asked. Also gives `context` a way to ask."""
        if self.make_approver is None:
            return None
        approver = self.make_approver(policy, context.files.current_text)
        if self.role is None:
            context.ask_user = asking(approver, session)
        return approver

    def agents(self, level: int = 0) -> KnownAgents:
        """Return the agents that a session with `level` sessions above it may delegate to."""
        return agents_of(self.settings, self.environ, self.project_agents, level)

    def _knowledge(self, notes: Notes | None, containment: Containment) -> Knowledge:
        def facts() -> WorkspaceFacts:
            environment, scope = containment.environment, containment.scope
            return WorkspaceFacts(self.workspace, environment, scope.may_read)

        return knowledge.build_knowledge(self.settings, self.environ, self.workspace, notes, facts)

    def _for_child(
        self, role: ChildRole, settings: Settings, make_approver: ApproverFactory | None
    ) -> AgentBuilder:
        free = replace(self, interactive=False, name_folders=None, make_approver=make_approver)
        return replace(free, settings=settings, role=role)

    def use_model(self, opened: OpenSession, name: str) -> None:
        """Have the model `name` answer from the next request on, with the effort in these settings.
        Raises ConfigError if it can't be asked."""
        session = opened.session
        assert isinstance(session.redact, Redactor)
        registry = self.registry(session.redact.learn)
        session.redact.learn(*registry.keys())
        models = Roles.of(self.settings, registry, name)
        chain = models.chain("main")
        chain.warm_up()
        require_prices(self.settings, models, session.state, self._budget(session.state))
        agent = opened.agent
        limits = self.limits(session.state)
        parts = (self.settings, models, agent.schemas, session, limits)
        opened.policy.use_judge(ask_judge(models, session, limits))
        most = self.settings.model.output_tokens
        opened.context.ask_editor = ask_editor(models, session, limits, most)
        opened.agent = replace(
            agent,
            llm=chain,
            memory=memory.build_memory(*parts),
            prefix=PrefixCheck(),
            effort=self.settings.model.effort or None,
        )
        if (before := session.state.model) != chain.model:
            session.emit(
                ModelSwitchedObservation(
                    from_model=before,
                    to_model=chain.model,
                    reason=CHOSEN,
                    content=f"from here on {chain.model} answers, as you chose",
                )
            )

    def _containment(
        self, folder: Path, registry: Providers, before: Sequence[str] | None = None
    ) -> Containment:
        """Return the containment of the session in `folder`, which could write to `before` when it
        was left. Raises ConfigError if nothing can enforce its access scope."""
        containment = Containment(
            self._with_named_folders(before),
            self.environ,
            self.workspace,
            self.home,
            folder,
            registry.key_variables(),
            attended=self.make_approver is not None,
            tmp=self.role.tmp if self.role else None,
        )
        _ = containment.sandbox
        return containment

    def _with_named_folders(self, before: Sequence[str] | None) -> Settings:
        home = user_home(self.environ)
        settings = with_named_folders(
            self.settings, self.workspace, home, before, self.name_folders
        )
        programs.distrust(settings.sandbox.writable)
        return settings

    def hooks(self, session: Session, containment: Containment) -> SessionHooks | None:
        context = HookContext(
            self.workspace,
            session.folder,
            containment.sandbox,
            free_environment(self.environ, containment.keys, session.id),
            containment.environment,
        )
        return session_hooks(self.settings, context, self.project_hooks)

    def compacting_hooks(self, session: Session, registry: Providers) -> SessionHooks | None:
        """Return the hooks for compacting a session that is not at work."""
        if not self.settings.hooks.PreCompact:
            return None
        (session.folder / "tmp").mkdir(mode=0o700, exist_ok=True)
        return self.hooks(session, self._containment(session.folder, registry, before=()))

    def limits(self, state: State) -> Limits:
        return limits_of(self.settings, self._budget(state))

    def _budget(self, state: State) -> float | None:
        """Return the most USD that the session may cost in all: as set now, else as when it was
        last opened; for a child, what its parent gives it."""
        if self.role is not None:
            return self.role.budget_usd
        return self.settings.agent.max_budget_usd or state.max_budget_usd or None

    def _bring_up(self, opened: OpenSession, undo: ExitStack) -> None:
        """Start what works on the session. From here on `undo` closes all of it."""
        with shield():
            undo.pop_all()
            undo.callback(opened.close, "failed")
        if self.role is None or not self.role.reads_only:
            opened.context.shell.start()
        opened.knowledge.begin(opened.session.events)

    def _started(
        self,
        session: Session,
        ready: Prepared,
        *,
        resumed: bool = False,
        name: str | None = None,
    ) -> SessionStartedObservation:
        return SessionStartedObservation(
            version=__version__,
            session_id=session.id,
            model=ready.models.chain("main").model,
            sandbox=ready.containment.sandbox.layer,
            workspace=str(self.workspace),
            pid=os.getpid(),
            host=socket.gethostname(),
            name=name,
            resumed=resumed,
            max_budget_usd=self._budget(session.state),
            sealed=ready.containment.sealed,
            network=ready.containment.sandbox.network,
            writable=tuple(map(str, ready.containment.scope.writable)),
            host_ports=ready.containment.reached_ports,
            **(self.role.facts() if self.role else {}),
        )


def _after_message(known: Knowledge, context: ToolContext) -> Callable[[Session], None]:
    """Return what to do after messages from another terminal."""

    def follow(session: Session) -> None:
        named_paths.show_newest(session, context)
        known.recall(session)

    return follow


def _subscribe(session: Session, subscribers: Callable[[Session], Sequence[Subscriber]]) -> None:
    for subscriber in subscribers(session):
        session.subscribe(subscriber)
