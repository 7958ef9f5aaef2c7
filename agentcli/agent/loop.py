"""The loop: act and think in turn until the task is done, a limit is reached or someone interrupts.

Everything that happens is an event of the session. What the model sees is projected from these
events. What it wants to do is recorded before it is done; the result is recorded after.
"""

from __future__ import annotations

from contextlib import nullcontext

from agentcli.agent.act import (
    PermissionChecker,
    checkpoint_after_turn,
    execute,
    parallel_groups,
    record_not_started,
)
from agentcli.agent.agent import Agent
from agentcli.agent.ending import Ending, TurnResult, explain_denied_approval
from agentcli.agent.replies import ending_of_reply, last_answer
from agentcli.agent.stuck import check_progress
from agentcli.agent.think import (
    call_model,
    condense,
    deliver_queued,
    tell_work_continues,
    write_summary,
)
from agentcli.errors import LLMError, TurnInterrupted
from agentcli.interrupts import Countdown, OutOfTime, shield
from agentcli.sessions.session import SessionLog
from agentcli.sessions.state import TRANSITIONS, AgentState


def run_turn(agent: Agent, session: SessionLog) -> TurnResult:
    """Work on what the newest messages of the session ask for. Raises only SessionError: failures
    of the model and of tools are part of the result and of the session."""
    countdown = agent.limits.countdown()
    has_summary = False
    try:
        session.change_state(AgentState.RUNNING)
        agent.llm.begin_turn()
        ending = work(agent, session, countdown)
        has_summary = ending.at_limit and write_summary(agent, session, ending, countdown)
    except TurnInterrupted as interrupt:
        if AgentState.PAUSED not in TRANSITIONS[session.state.agent_state]:
            raise  # nothing has begun yet
        ending = Ending(AgentState.PAUSED, interrupt.reason, "", interrupt.exit_code)
    with shield():
        checkpoint_after_turn(agent, session)
        session.change_state(ending.agent_state, ending.reason, ending.content, ending.exit_code)
    answer = last_answer(session.events) if ending.is_over or has_summary else ""
    if agent.requirements is not None:
        answer = agent.requirements.answer(session, ending, answer)
    return TurnResult(ending, answer, session.id)


def work(agent: Agent, session: SessionLog, countdown: Countdown | None) -> Ending:
    """Act and think in turn until something ends the turn. Raises TurnInterrupted if the user
    interrupts, once what was not started is recorded; delegations and a question stay open."""
    time_limit = countdown.interrupting(agent.limits.reserve_s()) if countdown else nullcontext()
    try:
        with time_limit:
            act(agent, session)
            if agent.limits.ending_at_limit(session.state, countdown):
                # Queued messages wait for the normal end of a turn, which this one will not have.
                deliver_queued(agent, session, "queue")
            while True:
                act(agent, session)
                ending = ended_by_model(agent, session)
                if ending := ending or forced_ending(agent, session, countdown):
                    return ending
                tell_work_continues(session)
                condense(agent, session)
                call_model(agent, session)
    except LLMError as error:
        return agent.limits.ending_after_failure(error, session.state)
    except TurnInterrupted as interrupt:
        record_not_started(session, interrupt)
        if isinstance(interrupt, OutOfTime) and countdown is not None:
            return agent.limits.out_of_time(session.state)
        raise


def act(agent: Agent, session: SessionLog) -> None:
    """Execute the recorded actions that have no observation yet, if they are allowed."""
    checker = PermissionChecker(agent, session)
    for group in parallel_groups(session.pending_actions(), agent):
        execute(agent, session, [action for action in group if checker.permits(action)])


def ended_by_model(agent: Agent, session: SessionLog) -> Ending | None:
    """Return how the newest reply ends the turn, unless the user or a hook has more to say."""
    deliver_queued(agent, session, "steer")
    ending = ending_of_reply(session.events, interactive=agent.interactive)
    if ending is None or deliver_queued(agent, session, "queue"):
        return None
    if agent.hooks is not None and agent.hooks.stopping(session, ending):
        return None
    return meet_requirements(agent, session, explain_denied_approval(session.events, ending))


def meet_requirements(agent: Agent, session: SessionLog, ending: Ending) -> Ending | None:
    """Return how the turn ends, judged by its requirements; None if the model has more to do."""
    if agent.requirements is None or not agent.requirements.apply(session, ending):
        return ending
    checkpoint_after_turn(agent, session)
    return agent.requirements.judge(session, ending)


def forced_ending(agent: Agent, session: SessionLog, countdown: Countdown | None) -> Ending | None:
    """Return the ending forced by a limit or because the model is stuck; None to go on. A model
    that may be stuck is warned first."""
    if ending := agent.limits.ending_at_limit(session.state, countdown):
        return ending
    finding = check_progress(session.events, session.state, interactive=agent.interactive)
    if finding is None or isinstance(finding, Ending):
        return finding
    session.emit(finding)
    return None
