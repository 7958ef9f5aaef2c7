"""What is repeated, what is taken from the record, and where files come from."""

from __future__ import annotations

import pytest

from agentcli.events import Action, Event, Observation, ReplyPart, Source, ToolCallMetadata
from agentcli.events.actions import (
    AgentDelegateAction,
    AskUserAction,
    BrowseURLAction,
    CmdRunAction,
    FileReadAction,
    MCPAction,
    MessageAction,
    RewindAction,
)
from agentcli.events.observations import (
    CheckpointObservation,
    CmdMetadata,
    CmdOutputObservation,
    ErrorObservation,
    NullObservation,
    UserRejectObservation,
)
from agentcli.replay.plan import plan_replay, why_not_replayed

DONE = CmdOutputObservation(content="ok", metadata=CmdMetadata(exit_code=0))


def called(action: Action, tool: str, reply: str = "r1") -> Action:
    call = ToolCallMetadata(function_name=tool, tool_call_id="c", raw_arguments="{}")
    part = ReplyPart(id=reply, index=0, total=1)
    return action.model_copy(update={"tool_call_metadata": call, "reply": part})


def command(text: str = "make", reply: str = "r1", **more: object) -> Action:
    return called(CmdRunAction(command=text, **more), "bash", reply)


@pytest.mark.parametrize(
    ("action", "observation", "why"),
    [
        (command(), DONE, ""),
        (command(), ErrorObservation(error_id="tool_failed"), ""),
        (called(FileReadAction(path="a"), "read"), NullObservation(), ""),
        (command(network=True), DONE, "commands beyond the sandbox"),
        (command(unsandboxed=True), DONE, "commands beyond the sandbox"),
        (command(), UserRejectObservation(), "refused calls"),
        (command(), ErrorObservation(error_id="not_run"), "calls that were not run"),
        (command(), ErrorObservation(error_id="interrupted"), "interrupted calls"),
        (
            command(),
            CmdOutputObservation(content="1\n[exit 130]\n[interrupted by the user]"),
            "interrupted calls",
        ),
        (
            command(),
            CmdOutputObservation(metadata=CmdMetadata(timed_out=True)),
            "commands that ran out of time",
        ),
        (
            command("status", job="job-1"),
            CmdOutputObservation(metadata=CmdMetadata(job_id="job-1")),
            "looks at jobs that were at work",
        ),
        (called(AskUserAction(question="?"), "ask"), NullObservation(), "answers of the user"),
        (
            called(AgentDelegateAction(agent="a", inputs={"task": "t"}), "delegate"),
            NullObservation(),
            "work of children",
        ),
        (called(BrowseURLAction(url="u"), "fetch"), NullObservation(), "pages"),
        (
            called(MCPAction(server="s", name="t"), "mcp__s__t"),
            NullObservation(),
            "tools of servers and packages",
        ),
    ],
)
def test_why_it_is_taken_from_the_record(action, observation, why):
    assert why_not_replayed(action, observation) == why


def log(*events: Event) -> list[Event]:
    """With their numbers; a result belongs to the newest call."""
    numbered: list[Event] = []
    call = None
    for number, event in enumerate(events):
        update: dict[str, object] = {"id": number}
        if isinstance(event, Action) and event.tool_call_metadata:
            call = number
        elif isinstance(event, Observation) and not isinstance(event, CheckpointObservation):
            update["cause"] = call
        numbered.append(event.model_copy(update=update))
    return numbered


def kept(tree: str, moment: str = "before_step") -> CheckpointObservation:
    return CheckpointObservation(tree=tree, moment=moment)


SAID = MessageAction(content="more", source=Source.USER)


def test_files_are_compared_after_what_was_done_again():
    made = plan_replay(log(command(), kept("a"), DONE, kept("b", "turn_end")), "a")
    assert (made.restored, made.compared) == ({}, {3: 2})


def test_what_the_person_changed_comes_with_their_message():
    events = log(command(), kept("a"), DONE, kept("b", "turn_end"), SAID, command(), kept("c"))
    made = plan_replay(events, "a")
    assert (made.restored, made.compared) == ({4: "c"}, {3: 2})


def test_what_was_not_done_again_comes_at_once_if_nothing_follows_in_its_step():
    wider = command(unsandboxed=True)
    later = command("cat a", "r2")
    made = plan_replay(log(wider, kept("a"), DONE, later, DONE, kept("b", "turn_end")), "a")
    assert made.restored == {2: "b"}


def test_else_it_comes_with_the_next_snapshot():
    wider = command(unsandboxed=True)
    made = plan_replay(log(wider, kept("a"), DONE, command(), DONE, kept("b", "turn_end")), "a")
    assert (made.restored, made.compared) == ({5: "b"}, {})


def test_where_hooks_may_change_files_none_are_compared():
    events = log(command(), kept("a"), DONE, command("cat a", "r2"), DONE, kept("b", "turn_end"))
    made = plan_replay(events, "a", hooked=True)
    assert (made.restored, made.compared) == ({2: "b"}, {})


def test_what_was_taken_back_is_brought_back():
    taken_back = RewindAction(to_event=0, conversation=False, tree="a")
    events = log(command(), kept("a"), DONE, kept("b", "turn_end"), taken_back)
    assert plan_replay(events, "a").restored == {4: "a"}
