"""Work that is delegated: children at work, what stops them, and what their parent is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentcli.events.observations import DelegateObservation
from agentcli.sessions.session import SessionRecord, read_session
from tests.server import Call, Recorded, Reply

MANY = 99
"""Conversations that one server sees: each begins with other words than the one before."""


def task_of(request: Recorded) -> str:
    """The first message of the conversation that a request is about."""
    first = next(each for each in request.body["messages"] if each["role"] == "user")
    content = first["content"]
    return content if isinstance(content, str) else content[0]["text"]


def by_task(**replies: Sequence[object]) -> Callable[[Recorded], object]:
    """A model that answers in each conversation as its task's first word says."""
    left = {name: list(each) for name, each in replies.items()}

    def play(request: Recorded) -> object:
        return left[task_of(request).split()[0]].pop(0)

    return play


def delegate(task: str, agent: str = "explorer", **more: str) -> Call:
    return Call("delegate", {"agent": agent, "task": task, **more})


def records(agent) -> tuple[SessionRecord, list[SessionRecord]]:
    """The session that a person began, and its children in the order they were begun."""
    every = sorted(map(read_session, agent.sessions), key=lambda each: each.state.created_at)
    [parent] = [each for each in every if each.state.delegate_level == 0]
    return parent, [each for each in every if each.state.delegate_level]


def reports(record: SessionRecord) -> list[DelegateObservation]:
    return [event for event in record.events if isinstance(event, DelegateObservation)]


def last_results(request: Recorded) -> str:
    """What the model was told last by tools."""
    return "\n".join(m["content"] for m in request.body["messages"] if m["role"] == "tool")


def test_an_explorer_reads_and_reports(agent, serve):
    (agent.workspace / "a.py").write_text("answer = 42\n")
    play = by_task(
        parent=[Reply("", [delegate("look for the answer")]), Reply("It is 42.")],
        look=[Reply("", [Call("grep", {"pattern": "answer"})]), Reply("a.py:1 says 42.")],
    )
    server = serve(play=play, sessions=MANY)
    agent.use(server)
    done = agent("run", "parent task")
    assert (done.returncode, done.stdout) == (0, "It is 42.\n"), done.stderr
    parent, [child] = records(agent)
    assert (child.state.parent_id, child.state.agent_name) == (parent.folder.name, "explorer")
    [report] = reports(parent)
    assert (report.status, report.steps, report.session_id) == ("finished", 2, child.folder.name)
    assert report.content.startswith("a.py:1 says 42.")
    assert report.cost_usd == child.state.cost_usd
    assert parent.state.cost_usd > child.state.cost_usd
    offered = [tool["function"]["name"] for tool in server.requests[1].body["tools"]]
    assert offered == ["glob", "grep", "read", "recall"]
    assert "explorer: look for the answer" in done.stderr


def test_a_coder_changes_files_and_the_parent_knows(agent, serve):
    (agent.workspace / "a.py").write_text("answer = 41\n")
    mend = Call("edit", {"path": "a.py", "old_str": "41", "new_str": "42"})
    again = Call("edit", {"path": "a.py", "old_str": "42", "new_str": "43"})
    play = by_task(
        parent=[
            Reply("", [Call("read", {"path": "a.py"})]),
            Reply("", [delegate("mend it", "coder")]),
            Reply("", [again]),
            Reply("Done."),
        ],
        mend=[Reply("", [Call("read", {"path": "a.py"}), mend]), Reply("It is 42 now.")],
    )
    server = serve(play=play, sessions=MANY)
    agent.use(server)
    done = agent("run", "parent task")
    assert done.returncode == 0, done.stderr
    [report] = reports(records(agent)[0])
    assert report.files_changed == ("a.py",)
    told = last_results(server.requests[-1])
    assert "It changed a.py" in told
    assert "a.py was changed on disk since you last read or wrote it" in told
    assert agent("undo").returncode == 0
    assert (agent.workspace / "a.py").read_text() == "answer = 41\n"
