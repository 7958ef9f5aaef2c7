"""When a run that nobody watched ends for want of approval."""

from __future__ import annotations

from agentcli.agent.ending import Ending, explain_denied_approval
from agentcli.events import Action, Source
from agentcli.events.actions import CmdRunAction, MemoryAction, MessageAction
from agentcli.events.observations import (
    CmdOutputObservation,
    DecisionObservation,
    FileReadObservation,
    UserRejectObservation,
)
from agentcli.sessions.state import AgentState

ANSWERED = Ending(AgentState.FINISHED, "finished")
GAVE_UP = Ending(AgentState.FINISHED, "failure", "no network here", exit_code=1)
TASK = MessageAction(content="install it", source=Source.USER)
REFUSED = [
    CmdRunAction(command="pip install x", network=True),
    DecisionObservation(
        decision="deny", by="policy", reason="it wants the network", unattended=True
    ),
    UserRejectObservation(content="Not allowed"),
]
WORKED = [CmdRunAction(command="make"), CmdOutputObservation(content="done")]
SAID = MessageAction(content="That is all.")


def exit_code(events, ending):
    numbered = [event.model_copy(update={"id": n}) for n, event in enumerate(events)]
    judged = 0
    for place, event in enumerate(numbered):
        if isinstance(event, Action):
            judged = event.id
        elif isinstance(event, DecisionObservation):
            numbered[place] = event.model_copy(update={"cause": judged})
    return explain_denied_approval(numbered, ending).exit_code


def test_talk_after_a_refusal_is_no_success():
    assert exit_code([TASK, *REFUSED, SAID], ANSWERED) == 5
    assert exit_code([TASK, *WORKED, *REFUSED, SAID], ANSWERED) == 5


def test_looking_around_after_a_refusal_is_no_way_around_it():
    assert exit_code([TASK, *REFUSED, FileReadObservation(path="a"), SAID], ANSWERED) == 5


def test_work_after_a_refusal_is_a_way_around_it():
    assert exit_code([TASK, *REFUSED, *WORKED, SAID], ANSWERED) == 0


def test_giving_up_after_a_refusal_is_for_want_of_approval_whatever_came_between():
    assert exit_code([TASK, *REFUSED, *WORKED, SAID], GAVE_UP) == 5
    assert exit_code([TASK, *WORKED, SAID], GAVE_UP) == 1


def test_no_task_waits_for_a_note():
    note = MemoryAction(command="add", target="user", text="likes tabs")
    assert exit_code([TASK, *WORKED, note, *REFUSED[1:], SAID], ANSWERED) == 0
    assert exit_code([TASK, *REFUSED, note, *REFUSED[1:], SAID], ANSWERED) == 5


def test_only_this_turn_counts():
    assert exit_code([TASK, *REFUSED, SAID, TASK, SAID], ANSWERED) == 0


def test_what_a_rule_denies_is_no_question_of_approval():
    denied = DecisionObservation(decision="deny", by="policy", reason="denied by a rule")
    assert exit_code([TASK, CmdRunAction(command="x"), denied, SAID], ANSWERED) == 0
