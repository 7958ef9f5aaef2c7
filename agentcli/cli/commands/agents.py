"""The agents that work can be delegated to."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from agentcli.cli.command import Command, CommandTarget, Report
from agentcli.errors import AgentError
from agentcli.sessions.finder import in_use_by, state_of
from agentcli.ui.resume_summary import how_it_ended
from agentcli.ui.summary import count, money
from agentcli.ui.text import Line, Span, printable


def list_agents(target: CommandTarget) -> Report:
    """Show the agents that work can be delegated to, and the children of this session.

    Yours are files in `agents/` beside your config.toml; those in `.agents/agents` of the project
    count once the folder is trusted. docs/delegation.md describes the format.

    Examples:
      agent agents list
      agent agents list --json
    """
    known = target.builder.agents()
    data = [
        {
            "name": agent.name,
            "description": agent.description,
            "tools": None if agent.tools is None else list(agent.tools),
            "reads_only": known.reads_only(agent),
            "model": agent.model,
            "max_turns": agent.max_turns or None,
            "max_budget_usd": agent.max_budget_usd,
            "file": agent.shown,
        }
        for agent in known.known.values()
    ]
    lines: list[Line] = [
        [
            Span(printable(f"{agent.name:<16} ", multiline=False), "bold"),
            Span(printable(f"{facts:<40} # {agent.shown}", multiline=False)),
        ]
        for agent in known.known.values()
        for facts in [" · ".join(known.facts(agent))]
    ]
    notices = list(known.notices)
    if not known.may_delegate:
        notices.append("delegation is off here: see tools.enable_delegate")
    if target.opened is not None:
        session = target.opened.session
        lines += [_of_child(session.folder.with_name(each)) for each in session.state.children]
    return Report(lines, notices=notices, data=data)


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


AGENTS = Command(list_agents)
COMMAND = {"list": AGENTS.in_shell("none")}
