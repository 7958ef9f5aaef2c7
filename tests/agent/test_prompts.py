"""The system text: what it says in which case, and templates of the user's own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from agentcli.agent.prompts import PromptFacts, PromptManager, SandboxFacts
from agentcli.errors import ConfigError

SANDBOX = SandboxFacts(
    "bubblewrap", writable=("/work",), protected=(".git/hooks", ".git/config"), private_tmp=True
)


def text(**facts):
    return PromptManager().system_text(PromptFacts(**facts))


def test_a_person_who_watches_is_not_told_away():
    assert "ask nothing" not in text(watched=True)
    assert "ask nothing" in text(watched=False)


def test_what_contains_commands_is_told():
    assert "Commands run as the user" in text()
    contained = text(sandbox=SANDBOX)
    assert "can write only to /work and its own /tmp; no network" in contained
    assert "needs no approval and can be undone" in contained
    assert ".git/hooks, .git/config can't be changed" in contained
    assert "Commands run as the user" not in contained
    assert "the network is open" in text(sandbox=SandboxFacts("landlock", network=True))


def test_a_small_model_gets_a_shorter_text_and_one_of_text_tools_no_word_on_calls():
    assert len(text(small_window=True)) < 0.8 * len(text())
    assert "Several calls in one reply" in text()
    assert "Several calls" not in text(text_tools=True)


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("small_window", [True, False])
@pytest.mark.parametrize("text_tools", [True, False])
@pytest.mark.parametrize("sandbox", [None, SANDBOX])
def test_every_text_is_short_and_well_set(watched, small_window, text_tools, sandbox):
    told = text(watched=watched, small_window=small_window, text_tools=text_tools, sandbox=sandbox)
    assert len(told.encode()) / 4 < 280
    assert "\n\n\n" not in told
    assert "{" not in told
    assert "A reply without calls ends the task." in told


def test_a_kept_text_needs_no_template_engine(tmp_path):
    program = (
        "import sys; from pathlib import Path\n"
        "from agentcli.agent.prompts import PromptFacts, PromptManager\n"
        "print(PromptManager(None, Path(sys.argv[1])).system_text(PromptFacts()))\n"
        "print('jinja2' in sys.modules)"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "kept")],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    ]
    assert runs[0].endswith("True\n")
    assert runs[1] == runs[0].replace("True\n", "False\n")


def test_a_damaged_or_outdated_text_is_never_sent(tmp_path):
    template = tmp_path / "own.j2"
    template.write_text("one")
    manager = PromptManager(template, tmp_path / "kept")
    assert manager.system_text(PromptFacts()) == "one"
    (kept,) = (tmp_path / "kept").iterdir()
    kept.write_text(kept.read_text()[:-1])
    assert manager.system_text(PromptFacts()) == "one"
    template.write_text("two")
    assert manager.system_text(PromptFacts()) == "two"


def test_few_texts_are_kept(tmp_path):
    template = tmp_path / "own.j2"
    for number in range(30):
        template.write_text(f"text {number}")
        PromptManager(template, tmp_path / "kept").system_text(PromptFacts())
    assert len(list((tmp_path / "kept").iterdir())) <= 20


def test_a_folder_that_can_not_be_written_is_no_obstacle(tmp_path):
    (tmp_path / "file").write_text("")
    manager = PromptManager(None, tmp_path / "file" / "kept")
    assert "coding assistant" in manager.system_text(PromptFacts())


@pytest.mark.parametrize(
    ("template", "why"),
    [
        (b"a\n{% if %}", "line 2"),
        (b"{{ nonsense }}", "'nonsense' is undefined"),
        (b"{{ 1 / 0 }}", "can't be rendered"),
        (b"  \n", "empty"),
        (b"\xff", "not UTF-8"),
        (b"x" * 100_001, "longer than"),
        (None, "No such file"),
    ],
)
def test_a_bad_template_is_named_with_its_fault(tmp_path, template, why):
    path = tmp_path / "own.j2"
    if template is not None:
        path.write_bytes(template)
    with pytest.raises(ConfigError) as refused:
        PromptManager(path).system_text(PromptFacts())
    assert str(path) in refused.value.message
    assert why in refused.value.message
    assert "agent.prompt" in refused.value.hint
