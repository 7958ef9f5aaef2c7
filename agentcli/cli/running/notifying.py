"""Notifications and the terminal's title for a session, as the settings say."""

from __future__ import annotations

import sys

from agentcli.sessions.session import Session
from agentcli.settings import UISettings
from agentcli.system.programs import user_environ
from agentcli.ui.notifier import NotifierSettings, TerminalNotifier


def notifier_of(session: Session, settings: UISettings) -> TerminalNotifier:
    """Return a subscriber for `session`; close it when the session is closed."""
    chosen = NotifierSettings(settings.notify, settings.notify_after_s, settings.title)
    label = session.state.name or session.state.title
    return TerminalNotifier(sys.stderr, chosen, user_environ(), label=label)
