"""Exports: every event, no secret, and Markdown that stays in shape whatever it quotes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentcli.errors import UsageError
from agentcli.events import LLMMetrics, OpaqueEvent, Source, event_to_dict
from agentcli.events.actions import (
    AgentDelegateAction,
    CmdRunAction,
    FileWriteAction,
    MessageAction,
    SystemMessageAction,
    ToolCallAction,
)
from agentcli.events.observations import (
    CmdOutputObservation,
    DelegateStartedObservation,
    FileWriteObservation,
)
from agentcli.security.redact import MASK, Redactor
from agentcli.sessions.export import EXPORTERS, Trajectory, exporter, trajectory_of
from agentcli.sessions.session import SessionLog, SessionRecord, read_session
from tests.sessions.test_index import FIRST, said, started
from tests.strategies import histories

SECRET = "correct-horse-battery"
TERMINAL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What a terminal acts on, or reorders text by."""
HEADER_KEYS = [
    "format_version",
    "session_id",
    "name",
    "title",
    "workspace",
    "model",
    "created_at",
    "updated_at",
    "state",
    "cost_usd",
    "usage",
]


EMPTY = dict.fromkeys(HEADER_KEYS, "") | {
    "cost_usd": None,
    "usage": {"prompt_tokens": 0, "completion_tokens": 0, "cache_read_tokens": 0},
}


def recorded(home: Path, *events) -> SessionRecord:
    with SessionLog.create(home / "sessions" / FIRST) as session:
        session.emit(started(FIRST, "/work"))
        for event in events:
            session.emit(event)
    return read_session(session.folder)


def exported(record: SessionRecord, form: str, redact=lambda data: data) -> str:
    return "".join(exporter(form)(trajectory_of(record, redact)))


def test_formats_are_found_by_name():
    assert EXPORTERS.all().keys() == {"html", "json", "jsonl", "markdown"}
    with pytest.raises(UsageError, match="pdf"):
        exporter("pdf")
    for name in EXPORTERS.all():
        assert "".join(exporter(name)(Trajectory(EMPTY, [])))


def test_json_and_json_lines_hold_every_event_and_what_the_session_is(tmp_path):
    metrics = LLMMetrics(model="m", prompt_tokens=10, cache_read_tokens=4, cost_usd=0.5)
    record = recorded(tmp_path, said("hello"), MessageAction(content="hi", llm_metrics=metrics))
    events = [event_to_dict(event) for event in record.events]
    whole = json.loads(exported(record, "json"))
    assert whole.pop("events") == events
    lines = [json.loads(line) for line in exported(record, "jsonl").splitlines()]
    assert lines == [whole, *events]
    assert list(whole) == HEADER_KEYS
    assert whole["title"] == "hello"
    assert whole["cost_usd"] == 0.5
    assert whole["usage"]["cache_read_tokens"] == 4


@pytest.mark.parametrize("form", ["json", "jsonl", "markdown", "html"])
def test_secrets_are_masked_at_any_depth(tmp_path, form):
    arguments = json.dumps({"a": [{"b": SECRET}]})
    record = recorded(
        tmp_path,
        said(f"use {SECRET}"),
        ToolCallAction(name="x", raw_arguments=arguments),
        CmdOutputObservation(content=f"{SECRET}\n" * 20, cause=2),
    )
    text = exported(record, form, Redactor([SECRET]))
    assert SECRET not in text
    assert MASK in text.replace("\\", "")


def test_a_page_has_the_children_that_are_its_own_and_no_other_session(tmp_path):
    """Whatever it claims: it may have come from somebody who wants what another one holds."""
    others = {"20260102-000000-bbbb": FIRST, "20260103-000000-cccc": None}
    for session_id, parent in others.items():
        first = started(session_id, "/work")
        role = {"parent": parent, "delegate_level": 1} if parent else {}
        with SessionLog.create(tmp_path / "sessions" / session_id) as session:
            session.emit(first.model_copy(update=role))
            session.emit(said(f"Said in {session_id}."))
    actions = [AgentDelegateAction(agent="explorer", inputs={"task": "Look."}) for _ in others]
    begun = [
        DelegateStartedObservation(action_id=number, session_id=session_id, agent="explorer")
        for number, session_id in enumerate((*others, "../../other"), 1)
    ]
    page = exported(recorded(tmp_path, *actions, *begun), "html")
    assert "Said in 20260102-000000-bbbb." in page
    assert "Said in 20260103-000000-cccc." not in page
    assert "session 20260103-000000-cccc is not part of this page" in page


def test_markdown_reads_as_the_conversation(tmp_path):
    record = recorded(
        tmp_path,
        SystemMessageAction(content="You help.", source=Source.ENVIRONMENT),
        said("fix it\nplease"),
        MessageAction(content="I look."),
        CmdRunAction(command="ls -l"),
        CmdOutputObservation(content="a.py", cause=4),
        CmdRunAction(command="cat log"),
        CmdOutputObservation(content="\n".join(map(str, range(1000))), cause=6),
        FileWriteAction(path="a.py", content="x = 2\n"),
        FileWriteObservation(content="ok", path="a.py", diff="-x = 1\n+x = 2\n", cause=8),
        MessageAction(content="Done."),
    )
    text = exported(record, "markdown")
    for part in (
        "# fix it",
        "- Workspace: `/work`",
        "\n## User\n\n> fix it\n> please\n",
        "\n## Agent\n\nI look.\n",
        "```sh\nls -l\n```",
        "```\na.py\n```",
        "(1,000 lines)</summary>",
        "*600 more lines*",
        "**write** `a.py`",
        "```diff\n-x = 1\n+x = 2\n```",
    ):
        assert part in text, part
    assert "\n399\n" in text
    assert "\n400\n" not in text
    assert text.count("## Agent") == 1


def test_markdown_fences_hold_whatever_is_in_them(tmp_path):
    record = recorded(
        tmp_path,
        MessageAction(content="see:\n~~~~py\nopen"),
        CmdOutputObservation(content="````\n</details>\n```", cause=1),
    )
    text = exported(record, "markdown")
    assert "~~~~py\nopen\n~~~~\n" in text
    assert "`````\n````\n</details>\n```\n`````" in text


def outside_of_fences(markdown: str) -> list[str]:
    fence, outside = "", []
    for line in markdown.splitlines():
        mark = line[: len(line) - len(line.lstrip("`"))]
        if not fence and len(mark) >= 3:
            fence = mark
        elif fence and line.strip() == fence:
            fence = ""
        elif not fence:
            outside.append(line)
    assert not fence
    return outside


@settings(max_examples=100)
@given(st.text(st.sampled_from("`~\n #<ax"), max_size=60))
def test_an_output_never_gets_out_of_its_fence(text):
    marker = "# not a heading"
    event = CmdOutputObservation(content=f"x{text}\n{marker}", cause=1)
    pieces = exporter("markdown")(Trajectory(EMPTY, [event_to_dict(event)]))
    assert marker not in outside_of_fences("".join(pieces))


@settings(max_examples=100)
@given(histories())
def test_any_history_has_every_form(history):
    header = dict.fromkeys(HEADER_KEYS, "x") | {
        "cost_usd": 1.0,
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "cache_read_tokens": 0},
    }
    raw = {"id": 7, "timestamp": "2026-01-01T00:00:00Z", "action": "dream", "source": "agent"}
    newer = OpaqueEvent(id=7, timestamp=raw["timestamp"], raw=raw, source=Source.AGENT)
    events = [event_to_dict(event) for event in [*history, newer]]
    forms = {form: "".join(exporter(form)(Trajectory(header, events))) for form in EXPORTERS.all()}
    assert json.loads(forms["json"]) == {**header, "events": events}
    assert "dream (from a newer version)" in forms["markdown"]
    assert "dream (from a newer version)" in forms["html"]
    for form, text in forms.items():
        assert not TERMINAL.search(text), form


@pytest.mark.parametrize("form", ["html", "json", "jsonl", "markdown"])
def test_a_terminal_acts_on_nothing_in_an_export(form):
    """However it gets there: through a pipe, or from the file."""
    evil = "`\x1b[2J`` \x1b]0;mine\x07 \x9b31m \r\b \u202e \x7f"
    header = {**EMPTY, "title": evil, "name": evil, "workspace": evil}
    events = [
        MessageAction(content=f"# {evil}", source=Source.USER),
        ToolCallAction(name=evil, raw_arguments=json.dumps({evil: [evil]})),
        CmdOutputObservation(content=evil, cause=1),
        FileWriteAction(path=evil, content=evil),
    ]
    text = "".join(exporter(form)(Trajectory(header, [event_to_dict(event) for event in events])))
    assert not TERMINAL.search(text)
