"""Lines of a long file merged with a sketch by a model of its own role."""

from __future__ import annotations

import json

import pytest

from tests.scripted import call
from tests.server import Call, Reply

ON = ("--set", "tools.enable_llm_editor=true")
BEFORE = "import os\n\n\ndef first():\n    return 1\n\n\ndef second():\n    return 2\n"
SKETCH = "def first():\n    # ... existing code ...\n\n\ndef second():\n    return 3\n"
MERGED = "def first():\n    return 1\n\n\ndef second():\n    return 3"


def script(answer: str, *more: Reply) -> list[Reply]:
    edit = {"path": "a.py", "start": 4, "end": 9, "content": SKETCH}
    return [
        call("read", path="a.py"),
        Reply("", [Call("llm_edit", edit)]),
        Reply(answer),
        *more,
        Reply("Done."),
    ]


def test_a_model_merges_an_edit_which_can_be_taken_back_and_is_paid_for(agent, serve):
    file = agent.workspace / "a.py"
    file.write_text(BEFORE)
    undo = call("edit", path="a.py", undo=True)
    server = serve(script(f"<merged>\n{MERGED}\n</merged>", undo), sessions=3)
    agent.use(server).ok("run", *ON, "--set", 'models.editor="openai-chat/gpt-5.4"', "x")
    asked = server.requests[2].body
    assert asked["model"] == "gpt-5.4"
    assert "lines 4 to 9 of a.py" in str(asked["messages"])
    _, edited, undone = server.results
    assert "-    return 2\n+    return 3" in edited
    assert undone.startswith("Took back the last edit of a.py")
    assert file.read_text() == BEFORE
    cost = json.loads(agent("sessions", "show", "--cost", "--json").stdout)
    assert "editor" in str(cost)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("I would rather not.", "did not answer in the form that was asked"),
        (f"<merged>\n{SKETCH}</merged>", "kept a line that stands for others"),
        ("<merged>\ndef first():\n    return 1\n</merged>", "left out `def second():`"),
    ],
)
def test_an_answer_that_is_no_merge_changes_nothing(agent, serve, answer, why):
    file = agent.workspace / "a.py"
    file.write_text(BEFORE)
    server = serve(script(answer), sessions=3)
    assert agent.use(server)("run", *ON, "x").returncode == 0
    assert f"The model that merges edits {why}; nothing was changed." in server.results[1]
    assert file.read_text() == BEFORE


def test_without_its_switch_no_model_is_told_of_it(agent, serve):
    server = serve([Reply("Done.")])
    agent.use(server)("run", "x")
    assert "llm_edit" not in str(server.requests[0].body)
