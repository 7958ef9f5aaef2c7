"""Offer the agent as a tool server on stdin and stdout, to other assistants and editors.

It has three tools: run (a task in a folder), resume (a session) and sessions_search. Whatever would
need your approval is denied, as in every run that nobody watches.

Examples:
  agent mcp serve
"""

from __future__ import annotations

from typing import Unpack

from agentcli.api.options import SessionOptions
from agentcli.api.running import run
from agentcli.app.configuration.trust import require_outside_session
from agentcli.cli.error_reporting import internal_error
from agentcli.cli.sessions.selector import clean_up_interrupted_work
from agentcli.cli.user_paths import home
from agentcli.errors import AgentError, internal_errors
from agentcli.sessions import search_index
from agentcli.system.programs import user_environ

_MOST_HITS = 20


def serve() -> None:
    require_outside_session(user_environ(), "a session can't serve the agent")
    from agentcli.mcp.serve import serve as serve_tools

    clean_up_interrupted_work()
    serve_tools(
        lambda task, folder: _work(task, workspace=folder),
        lambda session, message: _work(message, session_id=session),
        _search,
    )


def _work(message: str, **options: Unpack[SessionOptions]) -> str:
    """Return the agent's answer. Raises AgentError if the work failed."""
    with internal_errors(internal_error):
        result = run(message, **options)
    ending = result.ending
    text = f"{result.answer}\n\n[session {result.session_id}, {ending.agent_state}]".strip()
    if result.exit_code:
        raise AgentError("\n".join(filter(None, (ending.content, text))))
    return text


def _search(query: str) -> str:
    hits = search_index.search(home(), query, None, limit=_MOST_HITS)
    rows = [f"{hit.session_id}  event {hit.event_id}  {hit.kind}: {hit.snippet}" for hit in hits]
    return "\n".join(rows) or "nothing found"


COMMAND = serve
