"""The loop: think, act, until the task is over, a limit is reached or someone interrupts.

Everything the model is shown is projected from the session's events, everything it wants is
recorded before it is done, everything that came of it is recorded after.
"""

from __future__ import annotations

from contextlib import nullcontext

from agentcli.agent.agent import Agent, Ending, TurnResult
from agentcli.agent.approval_denied import for_want_of_approval
from agentcli.agent.authorise import Permits, batches
from agentcli.agent.compaction import condense, deliver_queued
from agentcli.agent.execute import account_for_rest, carry_out, keep_at_end
from agentcli.agent.limit_summary import go_on, sum_up
from agentcli.agent.model_call import ask
from agentcli.agent.replies import last_answer, verdict
from agentcli.agent.stuck import check
from agentcli.errors import LLMError, TurnInterrupted
from agentcli.interrupts import Countdown, OutOfTime, shield
from agentcli.sessions.session import Session
from agentcli.sessions.state import AgentState


def run_turn(agent: Agent, session: Session) -> TurnResult:
    """Work on what the session's newest messages ask for. Raises SessionError only: what happens
    to the model or the tools is in the result and in the session."""
    countdown = agent.limits.countdown()
    session.change_state(AgentState.RUNNING)
    agent.llm.begin_turn()
    summed_up = False
    try:
        ending = work(agent, session, countdown)
        summed_up = ending.at_limit and sum_up(agent, session, ending, countdown)
    except TurnInterrupted as interrupt:
        ending = Ending(AgentState.PAUSED, interrupt.reason, "", interrupt.exit_code)
    with shield():
        keep_at_end(agent, session)
        session.change_state(ending.agent_state, ending.reason, ending.content, ending.exit_code)
    said = last_answer(session.events) if ending.is_over or summed_up else ""
    return TurnResult(ending, said)


def work(agent: Agent, session: Session, countdown: Countdown | None) -> Ending:
    """Act and think in turn until something ends it. Raises TurnInterrupted when a person did,
    after what was going on has been accounted for."""
    time_to_work = countdown.interrupting(agent.limits.reserve_s()) if countdown else nullcontext()
    try:
        with time_to_work:
            act(agent, session)
            if agent.limits.reached(session.state, countdown):
                # What was to come after a turn that a limit ended would never come otherwise.
                deliver_queued(agent, session, "queue")
            while True:
                act(agent, session)
                if ending := over(agent, session) or held_up(agent, session, countdown):
                    return ending
                think(agent, session)
    except LLMError as error:
        return agent.limits.failed(error, session.state)
    except TurnInterrupted as interrupt:
        account_for_rest(session, interrupt)
        if isinstance(interrupt, OutOfTime):
            return agent.limits.out_of_time(session.state)
        raise


def act(agent: Agent, session: Session) -> None:
    """Carry out the recorded actions that have no observation yet."""
    permits = Permits(agent, session)
    for batch in batches(session.pending_actions(), agent.tools):
        carry_out(agent, session, [action for action in batch if permits.of(action)])


def over(agent: Agent, session: Session) -> Ending | None:
    """How the model ends the turn, unless the person or a hook has something to say to that."""
    deliver_queued(agent, session, "steer")
    ending = verdict(session.events, interactive=agent.interactive)
    if ending is None or deliver_queued(agent, session, "queue"):
        return None
    if agent.hooks is not None and agent.hooks.stopping(session, ending):
        return None
    return for_want_of_approval(session.events, ending)


def held_up(agent: Agent, session: Session, countdown: Countdown | None) -> Ending | None:
    """How the turn ends though the model would go on: a limit, or it goes in circles."""
    if ending := agent.limits.reached(session.state, countdown):
        return ending
    found = check(session.events, session.state, interactive=agent.interactive)
    if isinstance(found, Ending):
        return found
    if found is not None:
        session.emit(found)
    return None


def think(agent: Agent, session: Session) -> None:
    """Ask the model and record what it says and wants to do."""
    go_on(session)
    condense(agent, session)
    ask(agent, session)
