"""Builds what a session knows besides its conversation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from agentcli.app.attachments import show_newest
from agentcli.app.configuration.places import skill_folders, user_file
from agentcli.app.configuration.trust import is_trusted
from agentcli.app.containment import Containment
from agentcli.errors import UsageError
from agentcli.events import Event
from agentcli.events.actions import MessageAction
from agentcli.git.repositories import find_repository
from agentcli.knowledge.facts import WorkspaceFacts
from agentcli.knowledge.instructions import MAX_BYTES, repository_root
from agentcli.knowledge.knowledge import Knowledge
from agentcli.knowledge.notes import Notes, project_folder, reminder
from agentcli.messages import ToolSchema
from agentcli.security.redact import Redactor
from agentcli.sessions.session import SessionLog
from agentcli.settings import Settings
from agentcli.tools.base import ToolContext


def add_knowledge_tools(
    context: ToolContext,
    session: SessionLog,
    settings: Settings,
    redactor: Redactor,
    user_home: Path,
) -> Notes | None:
    """Give tools access to the notes and to the search over earlier sessions, if these are enabled.
    Returns the notes."""
    agent_home = session.folder.parents[1]
    if settings.agent.notes:
        context.notes = notes_on(
            context.workspace, agent_home, user_home, lambda text: redactor.text(text) != text
        )
    if settings.knowledge.session_search:

        def search_sessions(query: str) -> str:
            from agentcli.sessions.excerpts import excerpts

            return excerpts(agent_home, query, session.id, redactor)

        context.search_sessions = search_sessions
    return context.notes


def notes_on(
    workspace: Path,
    agent_home: Path,
    user_home: Path,
    is_secret: Callable[[str], bool] = lambda text: False,
) -> Notes:
    """Return the notes that a session in `workspace` gets and may change."""
    project = project_folder(agent_home, project_of(workspace, user_home))
    return Notes(project, agent_home, is_secret)


def project_of(workspace: Path, user_home: Path) -> Path:
    """Return the folder that identifies the project of `workspace`: the root of its repository (for
    a worktree, of the main one), else `workspace` itself. A repository that contains the home
    folder is no project."""
    root = repository_root(workspace)
    found = find_repository(root)
    if found is None or found.root != root or user_home.is_relative_to(root):
        return workspace
    data = found.folders[0]
    return data.parent if data.name == ".git" else data


def build_knowledge(
    containment: Containment, notes: Notes | None, objection: Callable[[Path], str]
) -> Knowledge:
    """Build the knowledge of the session whose commands run in `containment`. `objection` says why
    a resolved path may not be read unasked."""
    environ, settings = containment.environ, containment.settings.knowledge
    window_tokens = containment.settings.model.context_tokens

    def facts() -> WorkspaceFacts:
        may_read = containment.scope.may_read
        return WorkspaceFacts(containment.workspace, containment.environment, may_read)

    return Knowledge(
        containment.workspace,
        settings,
        facts,
        user_file(environ).parent,
        notes,
        lambda folder: is_trusted(environ, folder),
        skill_folders(settings, environ),
        # A byte for every other token of the window is about an eighth of it.
        min(MAX_BYTES, window_tokens // 2 or MAX_BYTES),
        objection,
    )


def last_notes(
    schemas: Sequence[ToolSchema], settings: Settings
) -> Callable[[Sequence[Event]], MessageAction | None]:
    """Return a function for what to tell the model before older work is condensed. It says nothing
    to a model that can't take notes."""
    if settings.agent.planning or not any(schema.name == "memory" for schema in schemas):
        return lambda events: None
    return reminder


def after_message(known: Knowledge, context: ToolContext) -> Callable[[SessionLog], None]:
    """Return what to do after messages from another terminal."""

    def follow(session: SessionLog) -> None:
        show_newest(session, context)
        known.inform(session)

    return follow


def check_call(known: Knowledge, message: str) -> None:
    """Raise UsageError if `message` calls a task without its inputs."""
    try:
        known.check(message)
    except ValueError as error:
        raise UsageError(str(error)) from error
