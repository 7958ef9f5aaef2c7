"""Makes the builder of sessions for a run or a conversation; the user is asked at the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path

from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.builders import NOBODY, UserQuestions, load_builder
from agentcli.app.configuration.trust import Answer
from agentcli.app.delegation.child_parent import ApproverFactory
from agentcli.cli.asking.folders import ask_folders
from agentcli.cli.asking.trust import ask_trust
from agentcli.cli.builders import given_settings
from agentcli.cli.conversation.shared_renderer import SharedRenderer
from agentcli.cli.flags import Flags
from agentcli.events.progress import Notice
from agentcli.security.trust import Fingerprint, TrustState
from agentcli.settings import Settings
from agentcli.ui.approval_terminal import can_ask
from agentcli.ui.approver import TerminalApprover
from agentcli.ui.terminal import TerminalRenderer


def asking_builder(
    flags: Flags,
    workspace: Path,
    renderer: TerminalRenderer | SharedRenderer,
    *,
    suspended: Callable[[], AbstractContextManager[None]] = nullcontext,
    approves: bool = True,
    folds: bool = False,
    interactive: bool = False,
) -> AgentBuilder:
    """Return a builder under the settings in force in `workspace`; `renderer` shows what was left
    out of them. `suspended` is entered while the terminal is used for a question. Nobody is asked
    for approval unless `approves`; `folds` is that of TerminalApprover. Raises ConfigError."""

    def trusts(found: Fingerprint, state: TrustState) -> Answer:
        with suspended():
            return ask_trust(found, state)

    @cache
    def name_folders(folder: Path, home: Path) -> Sequence[str]:
        with suspended():
            return ask_folders(folder, home)

    def approver_factory(settings: Settings) -> ApproverFactory:
        return lambda offers, current_text: TerminalApprover(
            offers=offers,
            current_text=current_text,
            before_asking=renderer.pause,
            suspended=suspended,
            timeout_s=settings.agent.approval_timeout_s,
            folds=folds,
        )

    questions = NOBODY
    if can_ask():
        attended = UserQuestions(trusts, approver_factory, name_folders)
        questions = attended if approves else UserQuestions(trusts)
    builder, notices = load_builder(
        workspace, given_settings(flags), questions, interactive=interactive
    )
    for notice in notices:
        renderer.on_progress(Notice(notice))
    return builder
