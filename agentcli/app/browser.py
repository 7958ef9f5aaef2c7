"""Builds the browser of a session from settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from agentcli.app.sandbox import Containment
from agentcli.browser.browser import Browser, BrowserSettings
from agentcli.sandbox.scope_finder import find_access_scope
from agentcli.sandbox.selection import BUBBLEWRAP, Sandbox
from agentcli.sessions.session import Session
from agentcli.workspace.private import OutputFolder

FOLDER = "browser"


def build_browser(session: Session, containment: Containment, outputs: OutputFolder) -> Browser:
    """Return the browser; nothing is searched for or started yet."""
    settings, sandbox = containment.settings, containment.sandbox

    def own_sandbox(folder: Path) -> Sandbox | None:
        """Return a sandbox that sees only system files and its own, which takes bubblewrap."""
        if sandbox.layer != BUBBLEWRAP:
            return None
        environ: Mapping[str, str] = containment.environ
        scope = find_access_scope(
            folder / "inside",
            environ,
            tmp=folder / "tmp",
            agent_files=[containment.agent_home],
            confined=True,
        )
        return replace(sandbox, scope=scope, network=False, once=False)

    return Browser(
        BrowserSettings(
            folder=session.folder / FOLDER,
            outputs=outputs,
            environ=containment.environ,
            sandbox=own_sandbox,
            program=settings.tools.browser,
            own_loopback=sandbox.own_loopback,
            open_ports=sandbox.host_ports,
        )
    )
