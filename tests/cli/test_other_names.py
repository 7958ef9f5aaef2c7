"""Calls in the terms of other programs' tools: carried out, judged like ours, and sent back as the
model wrote them. Terms: https://docs.anthropic.com/en/docs/agents-and-tools/tool-use (bash and text
editor tools), https://docs.claude.com/en/docs/claude-code/settings#tools-available-to-claude,
https://github.com/openai/codex (shell), https://github.com/google-gemini/gemini-cli (tools),
https://github.com/All-Hands-AI/OpenHands (execute_bash, str_replace_editor)."""

from __future__ import annotations

import json

import pytest

from tests.server import Call, Reply

EDITOR = "str_replace_based_edit_tool"
DONE = [
    ("Bash", {"command": "echo hi", "description": "Say hi", "timeout": 120000}, "hi"),
    ("bash", {"cmd": "echo hi"}, "hi"),
    ("shell", {"command": ["bash", "-lc", "echo hi | cat"], "workdir": "sub"}, "hi"),
    ("shell", {"command": ["echo", "a  b; c"], "timeout_ms": 5000}, "a  b; c"),
    ("shell", {"command": "pwd", "workdir": "sub"}, "/sub"),
    ("local_shell", {"action": {"type": "exec", "command": ["echo", "hi"]}}, "hi"),
    ("container.exec", {"cmd": ["bash", "-lc", "echo hi"]}, "hi"),
    ("functions.exec_command", {"cmd": "echo hi", "yield_time_ms": 1000}, "hi"),
    ("execute_bash", {"command": "echo hi", "is_input": "false", "security_risk": "low"}, "hi"),
    ("run_in_terminal", {"command": "echo hi", "explanation": "x", "isBackground": False}, "hi"),
    ("run_shell_command", {"command": "pwd", "directory": "sub"}, "/sub"),
    ("Read", {"file_path": "a.txt", "offset": 2, "limit": 2}, "2\tline 2\n3\tline 3\n"),
    ("read_file", {"target_file": "a.txt", "start_line": 4, "end_line": 4}, "4\tline 4"),
    ("read", {"filePath": "a.txt", "limit": 1}, "1\tline 1\n"),
    (EDITOR, {"command": "view", "path": "a.txt", "view_range": [5, -1]}, "5\tline 5"),
    (EDITOR, {"command": "view", "path": "."}, "sub/"),
    ("LS", {"path": "."}, "sub/"),
    ("Grep", {"pattern": "LINE 3", "-i": True, "output_mode": "content", "-n": True}, "3:line 3"),
    ("grep_search", {"query": "e 3", "isRegexp": False, "includePattern": "*.txt"}, "3:line 3"),
    ("Glob", {"pattern": "*.txt"}, "a.txt"),
    (
        "TodoWrite",
        {"todos": [{"content": "x", "status": "completed", "id": "1"}]},
        "1 task, 0 open",
    ),
    ("update_plan", {"plan": [{"step": "x", "status": "pending"}]}, "1 task, 1 open"),
]


@pytest.fixture
def files(agent):
    (agent.workspace / "sub").mkdir()
    (agent.workspace / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 6)))
    return agent.workspace


def run(agent, serve, calls, *flags, at_once=False):
    """Return the server after a run in which the model makes these calls, one a reply or all in
    one."""
    each = [Call(*call) for call in calls]
    replies = [Reply("", each)] if at_once else [Reply("", [call]) for call in each]
    server = serve([*replies, Reply("Done.")], sessions=2)
    agent.use(server)("run", *flags, "x")
    return server


def test_calls_in_other_terms_are_carried_out_and_sent_back_as_written(agent, serve, files):
    server = run(agent, serve, [(name, arguments) for name, arguments, _ in DONE])
    for (name, arguments, wanted), result in zip(DONE, server.results, strict=True):
        assert wanted in result, (name, arguments)
    said = [m for m in server.requests[-1].body["messages"] if m.get("tool_calls")]
    sent = [call["function"] for message in said for call in message["tool_calls"]]
    back = [(call["name"], json.loads(call["arguments"])) for call in sent]
    # OpenAI takes no dots in names.
    assert back == [(name.replace(".", "_"), arguments) for name, arguments, _ in DONE]


def test_files_are_changed_by_calls_in_other_terms(agent, serve, files):
    calls = [
        ("Write", {"file_path": "b.txt", "content": "one\ntwo\n"}),
        ("Edit", {"file_path": "b.txt", "old_string": "one", "new_string": "1"}),
        ("MultiEdit", {"file_path": "b.txt", "edits": [{"old_string": "two", "new_string": "2"}]}),
        (EDITOR, {"command": "create", "path": "c.txt", "file_text": "a\n"}),
        (EDITOR, {"command": "insert", "path": "c.txt", "insert_line": 1, "insert_text": "b"}),
        ("str_replace_editor", {"command": "str_replace", "path": "c.txt", "old_str": "a\n"}),
        (EDITOR, {"command": "undo_edit", "path": "c.txt"}),
        ("replace_string_in_file", {"filePath": "a.txt", "oldString": "line 5\n", "newString": ""}),
        ("write_file", {"absolute_path": "d.txt", "content": "d"}),
    ]
    run(agent, serve, calls)
    assert (files / "b.txt").read_text() == "1\n2\n"
    assert (files / "c.txt").read_text() == "a\nb\n"
    assert (files / "a.txt").read_text() == "line 1\nline 2\nline 3\nline 4\n"
    assert (files / "d.txt").read_text() == "d"


HARM = [
    ("Bash", {"command": "touch sub/x"}),
    ("bash", {"cmd": "touch sub/x"}),
    ("shell", {"command": ["touch", "sub/x"]}),
    ("shell", {"command": ["bash", "-c", "touch sub/x"]}),
    ("shell", {"command": ["/bin/sh", "-lc", "true; touch sub/x"]}),
    ("shell", {"command": "touch x", "workdir": "sub"}),
    ("shell", {"command": "touch sub/x", "workdir": "/; touch sub/x #"}),
    ("local_shell", {"action": {"type": "exec", "command": ["touch", "sub/x"]}}),
    ("functions.shell", {"cmd": "touch sub/x"}),
    ("Write", {"file_path": "sub/x", "content": ""}),
    ("Write", {"path": "b.txt", "file_path": "sub/x", "content": ""}),
    ("create_file", {"filePath": "./sub/../sub/x", "content": "x"}),
    (EDITOR, {"command": "create", "path": "sub/x", "file_text": "x"}),
    (EDITOR, {"command": "create", "path": "b.txt", "file_path": "sub/x", "file_text": "x"}),
    ("Edit", {"file_path": "sub/y", "old_string": "y", "new_string": "x"}),
    ("MultiEdit", {"file_path": "sub/y", "edits": [{"old_string": "y", "new_string": "x"}]}),
]


@pytest.mark.parametrize(
    "flags",
    [
        ("--deny", "bash(touch:*)", "--deny", "edit(sub/**)"),
        ("--yolo", "--deny", "bash(touch:*)", "--deny", "edit(sub/**)"),
        ("--approval", "plan"),
    ],
)
def test_rules_and_modes_judge_what_a_call_comes_to(agent, serve, files, flags):
    (files / "sub" / "y").write_text("y")
    server = run(agent, serve, HARM, *flags)
    assert len(server.results) == len(HARM)
    assert [path.name for path in (files / "sub").iterdir()] == ["y"], server.results
    assert (files / "sub" / "y").read_text() == "y"
    assert not (files / "b.txt").exists()


def test_other_names_bring_back_no_tool_that_is_off(agent, serve, files):
    off = [f"tools.enable_{kind}=false" for kind in ("cmd", "editor")]
    flags = [part for setting in off for part in ("--set", setting)]
    server = run(agent, serve, HARM, *flags, at_once=True)
    assert len(server.results) == len(HARM)
    assert not list((files / "sub").iterdir())


def test_what_has_no_counterpart_is_refused(agent, serve, files):
    calls = [
        ("Grep", {"pattern": "line", "output_mode": "count"}),
        ("shell", {"command": "touch x", "env": {"A": "1"}}),
        ("shell", {"workdir": "sub"}),
        ("edit_file", {"target_file": "a.txt", "code_edit": "x"}),
        ("Bash", {"command": "touch x", "dangerouslyDisableSandbox": True}),
        (EDITOR, {"command": "delete", "path": "a.txt"}),
    ]
    server = run(agent, serve, calls, at_once=True)
    assert len(server.results) == len(calls)
    for told in server.results:
        assert "was called wrongly" in told or "There is no tool" in told
    assert not (files / "x").exists()
