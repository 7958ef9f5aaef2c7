"""The only file that knows every part: assembles a session and an agent from settings."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcli import __version__
from agentcli.agent.act import show_saving
from agentcli.agent.agent import Agent, Approver
from agentcli.agent.ending import Limits
from agentcli.agent.prompts import PromptFacts, PromptManager
from agentcli.agent.think import situation_message
from agentcli.app import knowledge
from agentcli.app.agents import (
    ApproverFactory,
    ChildRole,
    KnownAgents,
    Parent,
    agents_of,
    tools_allowed,
)
from agentcli.app.containment import Containment, NameFolders, with_named_folders
from agentcli.app.hooks import NO_PROJECT_HOOKS, ProjectHooks, session_hooks
from agentcli.app.models import SideModels, check_memory, limits_of, providers_of, require_prices
from agentcli.app.offered_tools import Offer
from agentcli.app.open_session import OpenSession, close_session
from agentcli.app.policy import PolicyParts, SessionPolicy, check_rules, why_unread
from agentcli.app.requirements import RequirementChecker, RequirementSpec
from agentcli.app.resume import (
    change_messages,
    end_survivors,
    last_writable,
    require_work,
    stored_schemas,
)
from agentcli.app.session_tools import (
    ask_with,
    build_checkpointer,
    session_tools,
    start_servers,
    tool_context,
)
from agentcli.app.situation import Situation
from agentcli.checkpoints.checkpointer import Checkpointer
from agentcli.events import Source
from agentcli.events.actions import MessageAction, SystemMessageAction
from agentcli.events.observations import (
    CHOSEN,
    ModelSwitchedObservation,
    SessionStartedObservation,
)
from agentcli.interrupts import shield
from agentcli.llm.catalog import Catalog
from agentcli.llm.registry import Providers
from agentcli.llm.roles import Roles
from agentcli.logs import log_to
from agentcli.memory.projection import PrefixCheck
from agentcli.security.redact import Redactor, masked_values
from agentcli.sessions.finder import new_folder
from agentcli.sessions.folder import was_opened_here, writing_to
from agentcli.sessions.session import SessionLog, Subscriber
from agentcli.sessions.state import State
from agentcli.settings import Settings
from agentcli.system import programs
from agentcli.system.homes import expanded, state_home, user_home
from agentcli.tools.base import Tool, ToolContext
from agentcli.tools.registry import ToolRegistry
from agentcli.workspace.private import writable_paths
from agentcli.workspace.scope import TMP

if TYPE_CHECKING:
    from agentcli.app.children import Children
    from agentcli.knowledge.notes import Notes
    from agentcli.mcp.servers import ToolServers

_SMALL_WINDOW_TOKENS = 16_384
"""A model whose window is set to at most this gets a shorter system text."""


@dataclass(frozen=True)
class Prepared:
    """The parts of a session that depend on settings, checked before the session exists. `notices`
    are for the user."""

    redactor: Redactor
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
        writable = (*sandbox.writable, *shared, *writable_paths(self.home))
        programs.distrust((self.workspace, self.home, *writable))

    @property
    def home(self) -> Path:
        return state_home(self.environ)

    @property
    def _asks(self) -> bool:
        """Whether a user can be asked; about what a child does, too."""
        return self.make_approver is not None

    def why_unread(self, path: Path) -> str:
        """Return which of the user's rules denies reading a resolved path; "" if none does."""
        return why_unread(self.settings, self.environ, self.workspace, path)

    def registry(self, redactor: Redactor | None = None) -> Providers:
        """Return the providers; `redactor` learns each key that will be used."""
        return providers_of(self.settings, self.environ, redactor or Redactor())

    def catalog(self) -> Catalog:
        """Return the windows and prices of models."""
        return Catalog(self.settings.prices, self.registry().window)

    def prepare(self, folder: Path | None = None) -> Prepared:
        """Prepare a new session, in `folder` if given, before anything of it is on disk. Raises
        ConfigError if no session can begin under these settings."""
        folder = folder or new_folder(self.home)
        prepared = self._prepared(folder, self.settings.model.name, State())
        return replace(prepared, system_text=self._system_text(prepared))

    def create(
        self,
        subscribers: Callable[[SessionLog], Sequence[Subscriber]],
        name: str | None = None,
        prepared: Prepared | None = None,
        folder: Path | None = None,
    ) -> OpenSession:
        """Create a new session, in `folder` if given. Raises ConfigError if there is no model,
        SessionError if the session can't be written; then nothing of it is left."""
        prepared = prepared or self.prepare(folder)
        with ExitStack() as undo, writing_to(prepared.containment.session_folder):
            with shield():
                session = SessionLog.create(prepared.containment.session_folder)
                undo.callback(close_session, session, fresh=True)
            session.subscribe(*subscribers(session))
            opened = self._assemble(session, prepared, undo)
            session.emit(self._started(session, prepared, name=name))
            session.emit(
                SystemMessageAction(
                    content=prepared.system_text,
                    tools=tuple(asdict(schema) for schema in opened.agent.schemas),
                    source=Source.ENVIRONMENT,
                )
            )
            opened.begin(resumed=False)
            undo.pop_all()
        return opened

    def reopen(
        self,
        folder: Path,
        subscribers: Callable[[SessionLog], Sequence[Subscriber]],
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
                session = SessionLog.open(folder)
                undo.callback(session.close)
            more = has_message or (required is not None and not required.holds(session.state))
            system_message = require_work(session, more, interactive=self.interactive)
            end_survivors(session.id, self.environ)
            session.subscribe(*subscribers(session))
            before = last_writable(session.events, str(self.workspace))
            model = model or session.state.model
            prepared = self._prepared(folder, model, session.state, before)
            opened = self._assemble(session, prepared, undo, system_message)
            facts = prepared.containment.facts()
            changed = list(change_messages(session, self.workspace, facts, was_here=was_here))
            session.emit(self._started(session, prepared, resumed=True))
            for told in changed:
                session.emit(MessageAction(content=told, source=Source.ENVIRONMENT))
            session.emit(situation_message(opened.agent.situation(resumed=True)))
            opened.begin(resumed=True)
            if not has_message:
                opened.knowledge.inform(session)
            undo.pop_all()
        return opened

    def _prepared(
        self, folder: Path, model: str, state: State, before: Sequence[str] | None = None
    ) -> Prepared:
        """Prepare the session in `folder`, which need not exist yet. `before` are the folders it
        could write to when it was left. Raises ConfigError."""
        redactor = Redactor(masked_values(self.environ))
        models = self._models(redactor, model, state)
        check_memory(self.settings, models)
        containment = self.session_containment(folder, before)
        containment.require_named_folders()
        rules = check_rules(self.settings, self.environ, self.workspace)
        return Prepared(redactor, models, containment, (*rules, *containment.notices()))

    def _models(self, redactor: Redactor, model: str, state: State) -> Roles:
        """Return the models by role, `model` as the main one. Raises ConfigError if it can't be
        asked, or if there is a budget and no way to tell what is spent."""
        models = Roles.of(self.settings, self.registry(redactor), model)
        models.chain("main").warm_up()
        require_prices(self.settings, models, state, self._budget(state))
        return models

    def _system_text(self, prepared: Prepared) -> str:
        """Return the system text of a new session. Raises ConfigError if the user's template
        fails."""
        settings, own = self.settings, self.settings.agent.prompt
        provider = settings.providers.get(prepared.models.chain("main").model.partition("/")[0])
        facts = PromptFacts(
            watched=self.interactive,
            askable=self._asks and self.role is None and settings.tools.enable_ask,
            small_window=0 < settings.model.context_tokens <= _SMALL_WINDOW_TOKENS,
            text_tools=provider is not None and provider.tool_format == "text",
            sandbox=prepared.containment.facts(),
        )
        manager = PromptManager(expanded(own) if own else None, self.home / "prompts")
        text = manager.system_text(facts)
        return self.role.system_text(text) if self.role else text

    def _assemble(
        self,
        session: SessionLog,
        prepared: Prepared,
        undo: ExitStack,
        system_message: SystemMessageAction | None = None,
    ) -> OpenSession:
        """Return `session` with all that works on it, started. `system_message` has the tools that
        it was begun with; None if it is new. When this returns, `undo` closes all of it."""
        servers = start_servers(prepared.containment, session, prepared.redactor.learn, undo)
        opened = self._wire(session, prepared, servers, system_message)
        opened.fresh = system_message is None
        with shield():
            undo.pop_all()
            undo.callback(opened.close, "failed")
        if self.role is None or not self.role.reads_only:
            opened.context.shell.start()
        opened.knowledge.begin(session.events)
        return opened

    def _wire(
        self,
        session: SessionLog,
        prepared: Prepared,
        servers: ToolServers | None,
        system_message: SystemMessageAction | None,
    ) -> OpenSession:
        models, containment = prepared.models, prepared.containment
        session.redact = prepared.redactor
        if self.role is None:
            log_to(session.folder / "log", session.redact, whole=programs.is_own_process())
        level = self.role.level if self.role else session.state.delegate_level
        agents = self.agents(level)
        context, notes, tools = self._tools(session, prepared, servers, system_message, agents)
        schemas = stored_schemas(system_message) if system_message else tools.schemas()
        limits = self.limits(session.state)
        side_models = SideModels(self.settings, models, session, limits)
        context.ask_editor = side_models.merge_edit
        of_session = (session, containment, tools, context)
        parts = PolicyParts(*of_session, self.settings.agent, side_models.judge)
        policy, checkpointer = self._policy_and_checkpointer(parts, agents)
        context.judge_url = policy.judge_url
        context.files.guard.rules = lambda: policy.reading
        known = knowledge.build_knowledge(containment, notes, context.files.guard.why_unreadable)
        ways = (self.make_approver, self._for_child)
        parent = Parent(*ways, session, containment, policy, limits, level)
        hooks = session_hooks(containment, self.project_hooks)
        model = self.settings.model
        agent = Agent(
            llm=models.chain("main"),
            memory=side_models.memory(schemas, context.limit_results),
            tools=tools,
            schemas=schemas,
            policy=policy,
            limits=limits,
            prefix=PrefixCheck(),
            approver=self._approver(policy, context, session),
            checkpointer=checkpointer,
            git=context.git,
            hooks=hooks,
            requirements=RequirementChecker(containment, checkpointer),
            children=_children_of(parent, agents) if tools.has("delegate") else None,
            save_rule=policy.save_rule,
            inform=knowledge.after_message(known, context),
            situation=Situation(session, containment, context.shell).text,
            last_notes=knowledge.last_notes(schemas, self.settings),
            max_output_tokens=model.output_tokens,
            effort=model.effort or None,
            temperature=None if model.temperature == "" else model.temperature,
            interactive=self.interactive,
        )
        notices = (*prepared.notices, *agents.notices)
        return OpenSession(session, agent, context, known, policy, hooks, notices, servers=servers)

    def _tools(
        self,
        session: SessionLog,
        prepared: Prepared,
        servers: ToolServers | None,
        system_message: SystemMessageAction | None,
        agents: KnownAgents,
    ) -> tuple[ToolContext, Notes | None, ToolRegistry]:
        """Return the session's tools with the context that they share, and the notes in it."""
        models, containment = prepared.models, prepared.containment
        allows = tools_allowed(self.role, system_message, session.state)
        context = tool_context(session, containment, models.chain("main").model)
        notes = knowledge.add_knowledge_tools(
            context, session, self.settings, prepared.redactor, containment.scope.home
        )
        offer = Offer(self._asks, self.interactive, containment, notes)

        def offered(every: Iterable[Tool[Any]]) -> Iterable[Tool[Any]]:
            return agents.offered(offer.suited([*every, *self.more_tools]), allows)

        begun_with = frozenset(each.name for each in stored_schemas(system_message))
        tools = session_tools(
            self.settings, context, servers, models, offered, begun_with=begun_with
        )
        return context, notes, tools

    def _policy_and_checkpointer(
        self, parts: PolicyParts, agents: KnownAgents
    ) -> tuple[SessionPolicy, Checkpointer | None]:
        """Return what needs each other: the policy lets a command run unasked if a checkpoint
        covers its targets; the checkpointer adds the files that the policy finds in it."""
        policy = SessionPolicy(parts)
        policy.begin()
        if not self.settings.agent.checkpoints:
            return policy, None
        of_session = (parts.session, parts.tools, parts.context)
        checkpointer = build_checkpointer(*of_session, policy.files_to_keep, agents.changes_files)
        parts.context.is_kept = checkpointer.holds
        policy.use_coverage(partial(checkpointer.coverage, show_saving(parts.session)))
        return policy, checkpointer

    def _approver(
        self, policy: SessionPolicy, context: ToolContext, session: SessionLog
    ) -> Approver | None:
        """Return None if nobody can be asked. Also gives `context` a way to ask."""
        if self.make_approver is None:
            return None
        approver = self.make_approver(policy, context.files.current_text)
        if self.role is None:
            context.ask_user = ask_with(approver, session)
        return approver

    def agents(self, level: int = 0) -> KnownAgents:
        """Return the agents that a session with `level` sessions above it may delegate to."""
        return agents_of(self.settings, self.environ, self.project_agents, level)

    def _for_child(
        self, role: ChildRole, settings: Settings, make_approver: ApproverFactory | None
    ) -> AgentBuilder:
        free = replace(self, interactive=False, name_folders=None, make_approver=make_approver)
        return replace(free, settings=settings, role=role)

    def use_model(self, opened: OpenSession, name: str) -> None:
        """Have the model `name` answer from the next request on, with the effort in these settings.
        Raises ConfigError if it can't be asked."""
        session, agent = opened.session, opened.agent
        assert isinstance(session.redact, Redactor)
        models = self._models(session.redact, name, session.state)
        chain = models.chain("main")
        side_models = SideModels(self.settings, models, session, self.limits(session.state))
        opened.policy.use_judge(side_models.judge)
        opened.context.ask_editor = side_models.merge_edit
        opened.agent = replace(
            agent,
            llm=chain,
            memory=side_models.memory(agent.schemas, opened.context.limit_results),
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

    def containment(
        self, folder: Path, workspace: Path | None = None, *, attended: bool = False
    ) -> Containment:
        """Return what contains commands in `workspace` (None: the builder's) of the session in
        `folder`, which need not exist yet. `attended`: a user can be asked."""
        return Containment(
            self.settings,
            self.environ,
            workspace or self.workspace,
            self.home,
            folder,
            self.registry().key_variables(),
            attended,
        )

    def session_containment(self, folder: Path, before: Sequence[str] | None) -> Containment:
        """Return the containment of the session in `folder`, which could write to `before` when it
        was left. Raises ConfigError if nothing can enforce its access scope."""
        usual = self.containment(folder, attended=self.make_approver is not None)
        home, ask = user_home(self.environ), self.name_folders
        settings = with_named_folders(self.settings, self.workspace, home, before, ask)
        programs.distrust(settings.sandbox.writable)
        tmp = self.role.tmp if self.role else None
        containment = replace(usual, settings=settings, tmp=tmp)
        _ = containment.sandbox
        return containment

    def limits(self, state: State) -> Limits:
        return limits_of(self.settings, self._budget(state))

    def _budget(self, state: State) -> float | None:
        """Return the most USD that the session may cost in all: as set now, else as when it was
        last opened; for a child, what its parent gives it."""
        if self.role is not None:
            return self.role.budget_usd
        return self.settings.agent.max_budget_usd or state.max_budget_usd or None

    def _started(
        self,
        session: SessionLog,
        prepared: Prepared,
        *,
        resumed: bool = False,
        name: str | None = None,
    ) -> SessionStartedObservation:
        return SessionStartedObservation(
            version=__version__,
            session_id=session.id,
            model=prepared.models.chain("main").model,
            sandbox=prepared.containment.sandbox.layer,
            workspace=str(self.workspace),
            pid=os.getpid(),
            host=socket.gethostname(),
            name=name,
            resumed=resumed,
            max_budget_usd=self._budget(session.state),
            sealed=prepared.containment.sealed,
            network=prepared.containment.sandbox.network,
            writable=tuple(map(str, prepared.containment.scope.writable)),
            host_ports=prepared.containment.reached_ports,
            **(self.role.facts() if self.role else {}),
        )


def _children_of(parent: Parent, agents: KnownAgents) -> Callable[[], Children]:
    """Return a function for the children of a session, which are loaded when it is first called."""

    @cache
    def children() -> Children:
        from agentcli.app.children import Children

        return Children(parent, agents)

    return children
