"""Show the agents that work can be delegated to, and the children of this session.

Yours are files in `agents/` beside your config.toml; those in `.agents/agents` of the project count
once the folder is trusted. docs/delegation.md describes the format.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from agentcli.app.agents import KnownAgents
from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.slash_command import SlashCommand
from agentcli.errors import AgentError
from agentcli.knowledge.definitions import AgentDefinition
from agentcli.sessions.finder import in_use_by, state_of
from agentcli.ui.resume_summary import how_it_ended
from agentcli.ui.summary import count, money
from agentcli.ui.text import Line, Span, printable


def agents(conversation: Conversation, argument: str) -> None:
    known = conversation.builder.agents()
    lines = [_of_agent(agent, known) for agent in known.known.values()]
    lines += [[Span(printable(notice), "yellow")] for notice in known.notices]
    if not known.may_delegate:
        lines = [[Span("delegation is off here: see tools.enable_delegate", "yellow")]]
    if conversation.opened is not None:
        session = conversation.opened.session
        lines += [_of_child(session.folder.with_name(each)) for each in session.state.children]
    conversation.print(*lines)


def _of_agent(agent: AgentDefinition, known: KnownAgents) -> Line:
    told = " · ".join([*known.facts(agent), agent.shown])
    return [
        Span(printable(agent.name, multiline=False), "bold"),
        Span(printable(f"  {told}", multiline=False), "dim"),
    ]


def _of_child(folder: Path) -> Line:
    facts = "its session can't be read"
    with suppress(AgentError, OSError):
        state = state_of(folder)
        working = in_use_by(folder) is not None
        ended = "at work" if working else how_it_ended(state.agent_state, state.exit_code)
        cost = "$?" if state.cost_usd is None else money(state.cost_usd)
        steps = count(state.iteration, "step")
        facts = f"{state.agent_name} · {ended} · {steps} · {cost} · {state.title}"
    return [Span(f"{folder.name}  "), Span(printable(facts, multiline=False), "dim")]


SLASH_COMMAND = SlashCommand(agents, at_once=True)
