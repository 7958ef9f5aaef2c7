"""Offer the agent as a tool server on stdin and stdout, to other assistants and editors.

It has three tools: run (a task in a folder), resume (a session) and sessions_search. Whatever would
need your approval is denied, as in every run that nobody watches.

Examples:
  agent mcp serve
"""

from __future__ import annotations

import sys

from agentcli.app.configuration.trust import require_outside_session
from agentcli.cli.places import home
from agentcli.sessions.search import index
from agentcli.system.programs import user_environ

_MOST_HITS = 20


def serve() -> None:
    require_outside_session(user_environ(), "a session can't serve the agent")
    from agentcli.mcp.serve import serve as serve_tools

    serve_tools([sys.executable, "-m", "agentcli"], dict(user_environ()), _search)


def _search(query: str) -> str:
    hits = index.search(home(), query, None, limit=_MOST_HITS)
    rows = [f"{hit.session_id}  event {hit.event_id}  {hit.kind}: {hit.snippet}" for hit in hits]
    return "\n".join(rows) or "nothing found"


COMMAND = serve
