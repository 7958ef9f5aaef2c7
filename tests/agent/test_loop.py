"""The loop with plain parts: interrupts at every moment, hooks, states, limits."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from agentcli import interrupts
from agentcli.agent.ending import MAX_TURNS, Ending
from agentcli.agent.loop import run_turn
from agentcli.agent.think import _tell_if_cut, write_summary
from agentcli.errors import LLMError, LLMErrorKind, TurnInterrupted
from agentcli.events import Event, Source
from agentcli.events.actions import CondensationAction, MessageAction
from agentcli.events.observations import (
    AgentStateChangedObservation,
    DecisionObservation,
    ErrorObservation,
    SuccessObservation,
    UserRejectObservation,
)
from agentcli.interrupts import OutOfTime
from agentcli.messages import ToolChoice
from agentcli.sessions.session import SessionLog, read_session
from agentcli.sessions.state import AgentState
from tests.agent.parts import AskAlways, Model, Tools, agent_of, limits_of, says


@pytest.fixture
def session(tmp_path: Path):
    with SessionLog.create(tmp_path / "20260101-000000-abcd") as session:
        session.emit(MessageAction(content="do it", source=Source.USER))
        yield session


class InterruptedAt:
    """A person presses ^C in the moment in which the session records such an event."""

    def __init__(self, kind: type[Event]) -> None:
        self._kind = kind

    def on_event(self, event: Event) -> None:
        if isinstance(event, self._kind) and event.source is not Source.USER:
            interrupts.interrupt(TurnInterrupted("interrupted", 130))

    def on_progress(self, progress: object) -> None: ...


def told(session: SessionLog) -> list[str]:
    return [e.content for e in session.events if isinstance(e, ErrorObservation)]


def said_by_environment(session: SessionLog) -> list[str]:
    spoken = (e for e in session.events if isinstance(e, MessageAction))
    return [event.content for event in spoken if event.source is Source.ENVIRONMENT]


def test_interrupted_as_a_reply_is_recorded_nothing_was_started(session):
    tools = Tools()
    session.subscribe(InterruptedAt(type(tools.parse(says("", "x").tool_calls[0]))))
    result = run_turn(agent_of(says("", "a", "b"), tools=tools), session)
    assert (result.exit_code, result.ending.agent_state) == (130, AgentState.PAUSED)
    assert tools.began == []
    assert len(told(session)) == 2
    assert all(content.startswith("Not started") for content in told(session))


def test_interrupted_in_the_first_of_two_only_that_one_was_running(session):
    def press(action):
        raise TurnInterrupted("interrupted", 130)

    result = run_turn(agent_of(says("", "a", "b"), tools=Tools(press)), session)
    assert result.exit_code == 130
    first, second = told(session)
    assert "while this was running" in first
    assert "interrupted by the user" in first
    assert second.startswith("Not started")


def test_interrupted_as_a_result_is_recorded_it_stays_the_result(session):
    session.subscribe(InterruptedAt(SuccessObservation))
    run_turn(agent_of(says("", "a", "b")), session)
    assert [e.content for e in session.events if isinstance(e, SuccessObservation)]
    assert [content[:11] for content in told(session)] == ["Not started"]


def test_interrupted_beside_each_other_all_that_have_no_result_were_running(session):
    def press(action):
        if action.raw_arguments.count("b"):
            raise TurnInterrupted("interrupted", 130)

    tools = Tools(press, together=True)
    run_turn(agent_of(says("", "a", "b", "c"), tools=tools), session)
    assert [e.content[:4] for e in session.events if isinstance(e, SuccessObservation)] == ["done"]
    assert ["while this was running" in content for content in told(session)] == [True, True]


def test_interrupted_while_a_question_is_open_it_is_asked_again(session):
    class Leaving:
        def ask(self, action, reason, **said):
            raise TurnInterrupted("interrupted", 130)

    agent = agent_of(says("", "a"), policy=AskAlways(), approver=Leaving())
    assert run_turn(agent, session).exit_code == 130
    assert told(session) == []
    assert len(session.pending_actions()) == 1
    assert session.state.agent_state is AgentState.PAUSED


@dataclass
class Noting:
    """Hooks that note when they are called."""

    refuse: str = ""
    hold: int = 0
    compact: bool = True
    calls: list[str] = field(default_factory=list)

    def submitting(self, session, text):
        return ""

    def before(self, session, action):
        self.calls.append(f"before {action.id}")
        return self.refuse

    def after(self, session, action, observation):
        assert session.events[observation.id if observation.id >= 0 else -1]
        self.calls.append(f"after {action.id}: {observation.content}")

    def stopping(self, session, ending):
        self.calls.append(f"stopping {ending.reason}")
        if not self.hold:
            return False
        self.hold -= 1
        session.emit(MessageAction(content="[the tests fail]", source=Source.ENVIRONMENT))
        return True

    def compacting(self, session, reason):
        self.calls.append("compacting")
        return "" if self.compact else "not now"


def test_hooks_are_called_around_each_call_and_before_the_end(session):
    hooks = Noting()
    assert run_turn(agent_of(says("", "a"), says("Done."), hooks=hooks), session).answer == "Done."
    action = next(e for e in session.events if e.tool_call_metadata)
    assert hooks.calls == [
        f"before {action.id}",
        f"after {action.id}: done {action.id}",
        "stopping finished",
    ]


class DenyThose:
    """Denies what was asked to be done on one of these."""

    def __init__(self, *words: str) -> None:
        self._words = words

    def decide(self, action, grants):
        denied = any(f'"{word}"' in action.raw_arguments for word in self._words)
        decision = "deny" if denied else "allow"
        return DecisionObservation(
            cause=action.id, decision=decision, by="policy", reason="it may not"
        )


@pytest.mark.parametrize("together", [False, True])
def test_after_a_refused_call_the_later_ones_of_its_reply_are_not_run(session, together):
    tools = Tools(together=together)
    agent = agent_of(
        says("", "a", "no", "b", "c"),
        says("", "d"),
        says("Done."),
        policy=DenyThose("no"),
        tools=tools,
    )
    run_turn(agent, session)
    assert [action.raw_arguments for action in tools.began] == ['{"on": "a"}', '{"on": "d"}']
    assert told(session) == ["Not run: the call before it was refused."] * 2
    refusal = next(e for e in session.events if isinstance(e, UserRejectObservation))
    assert refusal.content == (
        "Not allowed: it may not. Nothing of this call was run. Do without it."
    )
    results = [m for m in agent.llm.requests[-1].messages if m.role == "tool"]
    assert len(results) == 5, "each call is answered"


def test_after_a_call_that_fails_the_later_ones_are_run(session):
    tools = Tools()
    tools.execute_all = lambda actions, live: (
        ErrorObservation(error_id="x", content="no", cause=action.id) for action in actions
    )
    agent = agent_of(says("", "a", "b"), says("Done."), tools=tools)
    run_turn(agent, session)
    assert told(session) == ["no", "no"]


def test_what_a_hook_refuses_is_not_run(session):
    hooks, tools = Noting(refuse="not on Sundays"), Tools()
    run_turn(agent_of(says("", "a"), says("Well."), hooks=hooks, tools=tools), session)
    assert tools.began == []
    refusal = next(e for e in session.events if isinstance(e, UserRejectObservation))
    assert "not on Sundays" in refusal.content
    assert not any(call.startswith("after") for call in hooks.calls)


def test_a_hook_may_keep_the_turn_from_ending(session):
    hooks = Noting(hold=1)
    result = run_turn(agent_of(says("Done."), says("Now it is."), hooks=hooks), session)
    assert result.answer == "Now it is."
    assert hooks.calls == ["stopping finished"] * 2


def test_a_hook_that_never_lets_go_ends_in_a_stop(session):
    agent = agent_of(*[says("Done.")] * 12, hooks=Noting(hold=99))
    result = run_turn(agent, session)
    assert result.ending.reason == "stuck"
    assert len(agent.llm.requests) <= 12


@pytest.mark.parametrize("compact", [True, False])
def test_a_hook_may_put_a_condensation_off(session, compact):
    hooks = Noting(compact=compact)
    agent = agent_of(says("Done."), hooks=hooks)
    wanted = CondensationAction(forgotten_start_id=0, forgotten_end_id=0)
    agent.memory.condense = lambda events, permit: wanted if permit() else None
    run_turn(agent, session)
    assert "compacting" in hooks.calls
    assert any(isinstance(e, CondensationAction) for e in session.events) is compact


def test_the_summary_at_a_limit_is_the_answer_and_uses_the_same_tools(session):
    agent = agent_of(says("", "a"), says("Half of it."), limits=limits_of(max_turns=2))
    result = run_turn(agent, session)
    assert (result.ending.reason, result.exit_code, result.answer) == (
        "max_turns",
        6,
        "Half of it.",
    )
    first, last = agent.llm.requests
    assert (first.tool_choice, last.tool_choice) == (ToolChoice.AUTO, ToolChoice.NONE)
    assert (first.reserve_tokens > 0, last.reserve_tokens) == (True, 0)
    assert last.messages[: len(first.messages)] == first.messages
    assert said_by_environment(session)[-1] == last.messages[-1].content


def test_words_on_the_way_are_no_answer_at_a_limit(session):
    agent = agent_of(says("Let me see.", "a"), limits=limits_of(max_turns=1))
    assert run_turn(agent, session).answer == ""


def test_the_summary_stays_the_answer_until_something_is_done(session):
    limits = limits_of(max_turns=2)
    run_turn(agent_of(says("", "a"), says("Half of it."), limits=limits), session)
    again = run_turn(agent_of(limits=limits), session)
    assert (again.exit_code, again.answer) == (6, "Half of it.")


def test_there_is_no_summary_of_nothing_done_since_the_user_spoke(session):
    run_turn(agent_of(says("", "a"), says("Done.")), session)
    session.emit(MessageAction(content="and now?", source=Source.USER))
    assert not write_summary(agent_of(), session, Ending(AgentState.PAUSED, MAX_TURNS), None)
    assert said_by_environment(session) == []


@pytest.mark.parametrize(("share", "is_told"), [(0, False), (0.74, True), (0.76, False)])
def test_it_is_told_once_if_a_server_seems_to_cut_what_it_is_sent(session, share, is_told):
    session.emit(MessageAction(content="word " * 10_000, source=Source.USER))
    agent, notices = agent_of(), []
    session.subscribe(SimpleNamespace(on_progress=notices.append))
    for _ in range(2):
        _tell_if_cut(agent, session, int(share * agent.memory.tokens(session.events)))
    assert len(notices) == is_told


def test_a_call_that_would_be_too_dear_is_asked_without_reserve_only_as_the_first(session):
    dear = LLMError(LLMErrorKind.BUDGET, "too dear")
    limits = limits_of(max_budget_usd=1.0)
    agent = agent_of(dear, says("", "a"), dear, says("One thing."), limits=limits)
    result = run_turn(agent, session)
    assert (result.ending.reason, result.answer) == ("max_budget", "One thing.")
    assert [request.reserve_tokens > 0 for request in agent.llm.requests] == [
        True, False, True, False,
    ]  # fmt: skip


def test_a_person_who_interrupts_the_summary_has_the_last_word(session):
    class Pressed(Model):
        def complete(self, request, notify, record):
            if request.tool_choice is ToolChoice.NONE:
                raise TurnInterrupted("interrupted", 130)
            return super().complete(request, notify, record)

    agent = agent_of(llm=Pressed([says("", "a")]), limits=limits_of(max_turns=2))
    assert run_turn(agent, session).exit_code == 130
    assert session.state.agent_state is AgentState.PAUSED


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        monkeypatch.setattr(interrupts.time, "monotonic", lambda: self.now)


def test_the_time_is_looked_at_before_each_call(session, monkeypatch):
    clock = Clock(monkeypatch)

    def takes_long(action):
        clock.now += 75

    limits = limits_of(max_time_s=100)
    agent = agent_of(says("", "a"), says("", "b"), says("Most."), limits=limits)
    agent.tools.during = takes_long
    result = run_turn(agent, session)
    assert (result.ending.reason, result.answer) == ("max_time", "")
    assert len(agent.tools.began) == 2, "80 s are for work, and 75 were used before the second call"


def test_a_person_who_thinks_for_long_costs_the_run_no_time(session, monkeypatch):
    clock = Clock(monkeypatch)

    class Slow:
        allowed, scope, reason = True, "once", ""

        def ask(self, action, reason, **said):
            clock.now += 1_000
            return self

    agent = agent_of(
        says("", "a"), says("Done."), policy=AskAlways(), approver=Slow(),
        limits=limits_of(max_time_s=100),
    )  # fmt: skip
    assert run_turn(agent, session).exit_code == 0


def test_time_that_runs_out_while_a_provider_makes_wait_leaves_time_to_sum_up(session):
    class Busy(Model):
        def complete(self, request, notify, record):
            assert session.state.agent_state is AgentState.RUNNING
            if len(self.requests) == 1:
                self.requests.append(request)
                record(AgentStateChangedObservation(agent_state="rate_limited"))
                raise OutOfTime
            return super().complete(request, notify, record)

    model = Busy([says("", "a"), says("One thing.")])
    result = run_turn(agent_of(llm=model, limits=limits_of(max_time_s=60)), session)
    assert (result.ending.reason, result.answer) == ("max_time", "One thing.")


EXPECTED = {
    "idle": "running",
    "awaiting_user_input": "running",
    "paused": "running",
    "finished": "running",
    "error": "running",
    "running": "awaiting_user_input awaiting_user_confirmation rate_limited paused finished error",
    "awaiting_user_confirmation": "user_confirmed user_rejected running paused error",
    "user_confirmed": "running paused error",
    "user_rejected": "running paused error",
    "rate_limited": "running paused error",
}


def test_every_pair_of_states_is_allowed_or_raises(session):
    assert set(EXPECTED) == set(AgentState)
    for before, after in itertools.product(AgentState, repeat=2):
        session.emit(AgentStateChangedObservation(agent_state=before))
        recorded = len(session.events)
        if after in EXPECTED[before].split():
            session.change_state(after)
            assert session.state.agent_state is after
        else:
            with pytest.raises(ValueError, match=f"{before} can't become {after}"):
                session.change_state(after)
            assert len(session.events) == recorded


def test_a_transition_that_is_not_allowed_loses_nothing(tmp_path):
    session = SessionLog.create(tmp_path / "20260101-000000-abcd")
    session.emit(MessageAction(content="do it", source=Source.USER))

    class Confused(Model):
        def complete(self, request, notify, record):
            session.change_state(AgentState.IDLE)
            raise AssertionError

    with pytest.raises(ValueError, match="running can't become idle"):
        run_turn(agent_of(llm=Confused([])), session)
    session.close()
    assert read_session(session.folder).log.fault is None
    with SessionLog.open(session.folder) as again:
        assert again.state.agent_state is AgentState.PAUSED
        assert run_turn(agent_of(says("Done.")), again).answer == "Done."


@pytest.mark.parametrize(("yes", "state"), [(True, "user_confirmed"), (False, "user_rejected")])
def test_what_a_person_answers_is_a_state(session, yes, state):
    class Person:
        allowed, scope, reason = yes, "once", ""

        def ask(self, action, reason, **said):
            return self

    agent = agent_of(says("", "a"), says("Done."), policy=AskAlways(), approver=Person())
    run_turn(agent, session)
    changes = [e for e in session.events if isinstance(e, AgentStateChangedObservation)]
    assert [change.agent_state for change in changes] == [
        "running", "awaiting_user_confirmation", state, "running", "finished",
    ]  # fmt: skip
    decided = [e.decision for e in session.events if isinstance(e, DecisionObservation)]
    assert decided == ["ask", "allow" if yes else "deny"]
