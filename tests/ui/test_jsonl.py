import io
import json
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from agentcli.events import Source, ToolCallMetadata
from agentcli.events.actions import (
    CmdRunAction,
    CondensationAction,
    MessageAction,
    RecallAction,
    SystemMessageAction,
    ToolCallAction,
)
from agentcli.events.observations import (
    AgentStateChangedObservation,
    CmdMetadata,
    CmdOutputObservation,
    DecisionObservation,
    ErrorObservation,
    FileEditObservation,
    RecallObservation,
    SessionStartedObservation,
    ToolResultObservation,
)
from agentcli.events.progress import Notice, ReplyAbandoned, Status, TextDelta
from agentcli.messages import Usage
from agentcli.ui.jsonl import JsonLinesWriter
from agentcli.ui.stream_schema import Line, stream_schema
from agentcli.ui.summary import RunSummary

SUMMARY = RunSummary(
    status="finished",
    session_id="s",
    duration_s=1.23456,
    steps=2,
    usage=Usage(10, 5, 8, 0, 1),
    cost_usd=0.01,
    files_changed=("a.py",),
    resume_command="agent resume s",
    answer="Fixed.",
)
CALL = ToolCallMetadata(
    function_name="bash", tool_call_id="call_1", raw_arguments='{"command":"ls"}'
)
EVENTS = (
    SessionStartedObservation(
        id=0,
        version="1",
        session_id="s",
        model="m",
        sandbox="none",
        workspace="/w",
        pid=1,
        host="h",
    ),
    SystemMessageAction(id=1, content="long"),
    MessageAction(id=2, source=Source.USER, content="fix it"),
    MessageAction(id=3, content="I'll look."),
    CmdRunAction(id=4, command="ls", tool_call_metadata=CALL),
    DecisionObservation(id=5, cause=4, decision="allow", by="user", grant="all commands"),
    CmdOutputObservation(id=6, cause=4, content="a.py\n", metadata=CmdMetadata(exit_code=2)),
    ToolCallAction(
        id=7,
        name="odd",
        raw_arguments="[1]",
        tool_call_metadata=ToolCallMetadata(
            function_name="odd", tool_call_id="call_2", raw_arguments="[1]"
        ),
    ),
    ErrorObservation(id=8, cause=7, error_id="invalid_tool_call", content="no such tool"),
    RecallAction(id=9, recall_type="session", query="x"),
    RecallObservation(id=10, cause=9, recall_type="session"),
    FileEditObservation(id=11, cause=99, path="a.py", diff="@@"),
    MessageAction(id=12, source=Source.ENVIRONMENT, content="be brief"),
    CondensationAction(id=13, forgotten_event_ids=(1, 2), reason="window"),
    AgentStateChangedObservation(id=14, agent_state="finished", exit_code=0),
)
PROGRESS = (
    TextDelta("x"),
    Status("thinking"),
    Status("retrying", "overloaded", 3.0),
    Status("retrying", "overloaded", 2.0),
    ReplyAbandoned("stalled"),
    Notice("stdin is silent"),
)


def write(events=(), progress=(), summary=SUMMARY, **options):
    """The lines as a program reads them."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    writer = JsonLinesWriter(stream, "s", **options)
    for event in events:
        writer.on_event(event)
    for item in progress:
        writer.on_progress(item)
    writer.write_result(summary)
    return [json.loads(line) for line in stream.buffer.getvalue().splitlines()]


def of_type(lines, kind):
    return [line for line in lines if line["type"] == kind]


def test_each_line_fits_the_schema():
    adapter = TypeAdapter(Line)
    for line in write(EVENTS, PROGRESS):
        adapter.validate_json(json.dumps(line))


def test_the_schema_is_plain_json_schema():
    schema = json.loads(json.dumps(stream_schema()))
    assert set(schema["discriminator"]["mapping"]) == {
        "init",
        "message",
        "tool_use",
        "tool_result",
        "state",
        "notice",
        "result",
    }


def test_lines_are_numbered_and_name_their_session():
    lines = write(EVENTS, PROGRESS)
    assert [line["seq"] for line in lines] == list(range(len(lines)))
    assert {(line["session_id"], line["schema_version"]) for line in lines} == {("s", 1)}


def test_a_call_and_its_result_belong_together():
    lines = write(EVENTS)
    use, result = of_type(lines, "tool_use")[0], of_type(lines, "tool_result")[0]
    assert (use["name"], use["input"]) == ("bash", {"command": "ls"})
    assert use["tool_call_id"] == result["tool_call_id"] == "call_1"
    assert use["event_id"] == result["cause"] == 4
    assert result["data"] == {"metadata": {"exit_code": 2}}
    assert result["is_error"] is False


def test_arguments_that_are_no_object_stay_text():
    use = of_type(write(EVENTS), "tool_use")[1]
    assert (use["name"], use["input"]) == ("odd", "[1]")
    assert of_type(write(EVENTS), "tool_result")[1]["is_error"] is True


def test_messages_have_the_role_of_who_spoke():
    spoken = [(line["role"], line["content"]) for line in of_type(write(EVENTS), "message")]
    assert spoken == [("user", "fix it"), ("assistant", "I'll look.")]


def test_everything_else_is_a_notice():
    kinds = [line["kind"] for line in of_type(write(EVENTS, PROGRESS), "notice")]
    recalled = ["recall", "recall"]
    passing = ["retry", "reply_abandoned", "notice"]
    assert kinds == ["decision", *recalled, "message", "condensation", *passing]


def test_only_what_the_model_asks_for_is_a_call_with_a_result():
    lines = write(EVENTS)
    assert [line["name"] for line in of_type(lines, "tool_use")] == ["bash", "odd"]
    assert [line["cause"] for line in of_type(lines, "tool_result")] == [4, 7, 99]


def test_the_last_line_is_the_result_and_there_is_one():
    stream = io.StringIO()
    writer = JsonLinesWriter(stream, "s")
    writer.write_result(SUMMARY)
    writer.write_result(SUMMARY)
    writer.on_event(EVENTS[2])
    (line,) = map(json.loads, stream.getvalue().splitlines())
    assert line["answer"] == "Fixed."
    assert line["usage"]["cache_read_tokens"] == 8
    assert line["duration_s"] == 1.235
    assert line["error"] is None


def test_a_failed_run_says_why_and_what_to_do():
    failed = RunSummary(status="error", session_id="s", exit_code=3, error="no key", hint="set it")
    (line,) = write(summary=failed)
    assert line["error"] == {"message": "no key", "hint": "set it"}
    assert line["cost_usd"] is None


def test_result_only():
    assert [line["type"] for line in write(EVENTS, PROGRESS, result_only=True)] == ["result"]


@given(st.text(st.one_of(st.characters(), st.sampled_from("\ud800\udfff\x00\u2028\r\n"))))
def test_any_text_is_one_valid_line(text):
    line = write([MessageAction(content=text)])[0]
    clean = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert line["content"] == clean


def test_numbers_that_json_does_not_know_become_null():
    data = {"nan": float("nan"), "list": [float("inf"), 1.5]}
    line = write([ToolResultObservation(cause=0, name="x", data=data)])[0]
    assert line["data"]["data"] == {"nan": None, "list": [None, 1.5]}


def test_a_reader_that_has_gone_is_told_once():
    class Gone(io.StringIO):
        def flush(self):
            raise BrokenPipeError

    failures = []
    writer = JsonLinesWriter(Gone(), "s", on_failure=failures.append)
    for event in EVENTS:
        writer.on_event(event)
    writer.write_result(SUMMARY)
    assert len(failures) == 1


def test_lines_come_out_at_once():
    code = (
        "import sys\n"
        "from agentcli.events.actions import MessageAction\n"
        "from agentcli.ui.jsonl import JsonLinesWriter\n"
        "JsonLinesWriter(sys.stdout, 's').on_event(MessageAction(content='世界'))\n"
        "sys.stdin.read()\n"
    )
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["content"] == "世界"
        process.stdin.close()


@pytest.mark.parametrize("raw", ["", "{", "null", "[" * 100_000])
def test_bad_arguments_never_break_the_stream(raw):
    call = ToolCallMetadata(function_name="x", tool_call_id="c", raw_arguments=raw)
    action = ToolCallAction(id=0, name="x", raw_arguments=raw, tool_call_metadata=call)
    assert write([action])[0]["input"] == raw
