"""Makes the builder of sessions in a folder: with the settings in force there, and a way to ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.agents import ApproverFactory
from agentcli.app.configuration.trust import Asker, load_with_trust
from agentcli.app.containment import NameFolders
from agentcli.errors import ConfigError
from agentcli.settings import Settings
from agentcli.system.programs import user_environ


@dataclass(frozen=True)
class UserQuestions:
    """Functions that ask the user, each None if that is impossible: whether a folder is trusted,
    whether an action may run (given the settings in force), which folders may be written to."""

    ask_trust: Asker | None = None
    approver_factory: Callable[[Settings], ApproverFactory] | None = None
    ask_folders: NameFolders | None = None


NOBODY = UserQuestions()


def load_builder(
    workspace: Path,
    values: Mapping[str, Any] | None = None,
    questions: UserQuestions = NOBODY,
    *,
    interactive: bool = False,
    on_fault: Callable[[ConfigError], None] | None = None,
) -> tuple[AgentBuilder, Sequence[str]]:
    """Return a builder, and lines for the user about settings that were left out. `values` are
    settings by dotted key that take precedence over those of files. Raises ConfigError for wrong
    settings, unless `on_fault` takes them."""
    environ = user_environ()
    loaded = load_with_trust(environ, workspace, values, questions.ask_trust, on_fault)
    settings = loaded.settings.values
    builder = AgentBuilder(
        settings,
        environ,
        workspace,
        questions.approver_factory(settings) if questions.approver_factory else None,
        loaded.project_hooks,
        interactive=interactive,
        name_folders=questions.ask_folders,
        project_agents=loaded.project_agents,
        origins=loaded.settings.origins,
    )
    return builder, loaded.settings.notices
