"""`agent context`: what fills the window of a session."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentcli.cli.commands.context import picture
from agentcli.events import ReplyPart, Source, ToolCallMetadata
from agentcli.events.actions import MessageAction, ToolCallAction
from agentcli.events.observations import (
    BrowserOutputObservation,
    CmdOutputObservation,
    GitCleanupObservation,
    MCPObservation,
    RecallObservation,
    ReplyDiscardedObservation,
    SuccessObservation,
)
from agentcli.memory.context_use import ContextUse, Part, Share, context_use
from agentcli.memory.projection import project
from agentcli.memory.tokens import Size, size_of
from agentcli.ui.text import cells, plain, printable
from tests.server import Call, Reply
from tests.strategies import histories


@pytest.fixture
def worked(agent, serve):
    """A session that read a long file, with instructions and a note."""
    (agent.workspace / "AGENTS.md").write_text("Use tabs.\n" * 40)
    (agent.workspace / "long.txt").write_text("a line of this file\n" * 400)
    notes = Path(agent("notes", "--path").stdout.strip())
    notes.parent.mkdir(mode=0o700, parents=True)
    notes.write_text("Tests run with make check.\n")
    script = [
        Reply("I look.", [Call("read", {"path": "long.txt"})]),
        Reply("", [Call("bash", {"command": "echo \x1b[31mred"})]),
        Reply("Done."),
    ]
    agent.use(serve(script))
    assert agent("run", "what is in long.txt?").returncode == 0
    return agent


def test_every_part_of_the_window_is_told(worked):
    data = json.loads(worked("context", "--json").stdout)
    kinds = {part["kind"] for part in data["parts"]}
    assert kinds == {
        "system",
        "tools",
        "facts",
        "instructions",
        "notes",
        "user",
        "replies",
        "results",
    }
    assert {part["tool"] for part in data["parts"]} == {None, "read", "bash"}
    assert data["used_tokens"] == sum(part["tokens"] for part in data["parts"])
    window = data["used_tokens"] + data["free_tokens"] + data["reserve_tokens"]
    assert window == data["window_tokens"]
    biggest = data["biggest"][0]
    assert (biggest["kind"], biggest["name"]) == ("results", "read")
    assert biggest["event_id"] > 0


def test_tokens_agree_with_what_the_provider_counted(worked):
    data = json.loads(worked("context", "--json").stdout)
    session = json.loads(worked("sessions", "list", "--json").stdout)[0]
    last = session["prompt_tokens"] / 3
    assert last < data["used_tokens"] < 3 * last


@pytest.mark.parametrize("columns", [80, 120])
def test_the_picture_fits_the_terminal_and_needs_no_colour(worked, columns):
    done = worked("context", "--columns", str(columns))
    lines = done.stdout.splitlines()
    assert "\x1b" not in done.stdout
    assert max(map(len, lines)) <= columns
    assert [len(line) for line in lines[2:7]] == [columns] * 5
    for name in ("system text", "instruction files", "results of read", "free", "reserve"):
        assert any(name in line for line in lines)
    assert "event " in done.stdout


def test_without_a_session_it_says_what_to_do(agent):
    assert agent("context").returncode == 2
    assert agent("context", "nothing").returncode == 2


def test_a_reply_that_was_discarded_takes_nothing():
    part = ReplyPart(id="r", index=0, total=2)
    history = [
        MessageAction(id=0, content="Go on.", source=Source.USER),
        MessageAction(id=1, content="word " * 5_000, reply=part),
        ReplyDiscardedObservation(id=2, reply_id="r"),
    ]
    assert context_use(history, 100_000, 1_000).used < 20


LONG = "a line of a long result\n" * 4_000


@pytest.mark.parametrize(
    "told",
    [
        BrowserOutputObservation(url="http://localhost", content=LONG),
        CmdOutputObservation(content=LONG),
        MCPObservation(server="s", name="look", content=LONG),
        SuccessObservation(content=LONG),
    ],
    ids=lambda told: told.kind,
)
def test_a_long_result_counts_as_much_as_is_sent(told):
    history = [
        MessageAction(id=0, content="Go on.", source=Source.USER),
        ToolCallAction(
            id=1,
            name="look",
            raw_arguments="{}",
            reply=ReplyPart(id="r", index=0, total=1),
            tool_call_metadata=ToolCallMetadata(
                tool_call_id="c", function_name="look", raw_arguments="{}"
            ),
        ),
        told.model_copy(update={"id": 2, "cause": 1}),
    ]
    assert abs(context_use(history, 100_000, 1_000).used - sent_bytes(history) / 4) < 50


@pytest.mark.parametrize(
    "told",
    [
        RecallObservation(recall_type="workspace_context", content=LONG),
        GitCleanupObservation(content=LONG),
    ],
    ids=lambda told: told.kind,
)
def test_what_the_model_is_told_without_a_call_counts_too(told):
    history = [
        MessageAction(id=0, content="Go on.", source=Source.USER),
        told.model_copy(update={"id": 1}),
    ]
    assert abs(context_use(history, 100_000, 1_000).used - sent_bytes(history) / 4) < 50


def sent_bytes(history):
    """The size of the request, without what stands for a missing result, which is no part of the
    history."""
    messages = [m for m in project(history) if "its effect is unknown" not in m.content]
    return sum(map(size_of, messages), Size()).text


sizes = st.integers(1, 10**6)
results = st.tuples(st.just("results"), st.text(max_size=30), sizes)
others = st.tuples(st.sampled_from(["user", "replies", "system", "summaries"]), st.just(""), sizes)
shares = st.lists(
    results | others, max_size=40, unique_by=lambda share: (share[0] == "results", share[:2])
)
"""Only results are told apart by names: those of their tools."""


@settings(max_examples=200)
@given(shares=shares, window=st.integers(1, 10**6), columns=st.integers(1, 300))
def test_any_use_is_a_picture_of_the_right_width(shares, window, columns):
    parts = tuple(Part(kind, name, 5, tokens, name) for kind, name, tokens in shares[:10])
    use = ContextUse(window, window // 2, tuple(Share(*share) for share in shares), parts)
    width = max(40, min(columns, 120))
    for line in picture("model", use, columns):
        assert cells(plain(line)) <= width
        assert printable(plain(line), multiline=False) == plain(line)


@settings(max_examples=200)
@given(history=histories())
def test_the_parts_are_what_is_sent(history):
    """In size, up to the few bytes that go around each part."""
    history.append(MessageAction(id=len(history), content="Go on.", source=Source.USER))
    use = context_use(history, 100_000, 1_000)
    assert abs(use.used - sent_bytes(history) / 4) <= 50 * len(history) / 4
