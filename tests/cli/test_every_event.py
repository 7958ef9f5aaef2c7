"""Every kind of event comes of a real run, is stored, shown, and no hindrance to going on.

A new class of events fails here until it has a row: in `BY_ONE_RUN`, with a call for it in `work`,
or in `ELSEWHERE`, with the file of tests that produces it.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from agentcli.events.base import ACTIONS, OBSERVATIONS
from agentcli.sessions.session import read_session
from tests.conftest import git
from tests.mcp.conftest import PLAIN
from tests.pages import html, serving
from tests.scripted import call
from tests.server import Reply, Truncated

BY_ONE_RUN = {
    "action": {
        *("system", "message", "run", "run_ipython", "read", "write", "edit", "grep", "glob"),
        *("browse", "ask", "call_tool_mcp", "think", "finish", "delegate", "recall", "memory"),
        *("task_tracking", "tool_call", "condensation_request", "condensation", "rename"),
        "rewind",
    },
    "observation": {
        *("run", "run_ipython", "read", "write", "edit", "search", "browse", "ask", "mcp"),
        *("delegate", "delegate_started", "recall", "think", "task_tracking", "memory"),
        *("agent_state_changed", "session_started", "decision", "user_rejected", "error"),
        *("success", "checkpoint", "hook", "text_merged", "attempts_abandoned", "set_aside"),
        *("prefix_changed", "going_back"),
    },
}
ELSEWHERE = {
    "action": {
        "browse_interactive": "browser/test_browsing.py"  # needs a Chromium
    },
    "observation": {
        "tool_result": "test_extending.py",  # a tool of an outside package
        "model_switched": "cli/test_models.py",
        "request_adapted": "cli/test_refusals.py",  # a server that refuses a member
        "risk_judged": "cli/test_approval.py",
        "reply_discarded": "faults/test_kills.py",  # a kill between two writes
        "null": "sessions/test_importing.py",
        "requirements": "cli/test_requirements.py",
        "requirement": "cli/test_requirements.py",
    },
}
"""Kinds that take something special: the file whose tests produce them."""
TABLES = {"action": ACTIONS, "observation": OBSERVATIONS}
TESTS = Path(__file__).parents[1]
SETTINGS = """
[tools]
enable_think = true
enable_jupyter = true
enable_llm_editor = true
[[hooks.PostToolUse]]
command = "echo seen >&2; exit 2"
matcher = "think"
sandboxed = false
[mcp_servers.plain]
start_timeout_s = 300
command = {python}
args = [{server}]
"""


@pytest.mark.parametrize("side", TABLES)
def test_every_class_has_a_row(side):
    rows = BY_ONE_RUN[side] | ELSEWHERE[side].keys()
    known = {kind for kind, cls in TABLES[side].items() if cls.__module__.startswith("agentcli.")}
    assert known - rows == set(), "these are new: give each a row"
    assert rows - known == set(), "these are gone"
    assert not [file for file in ELSEWHERE[side].values() if not (TESTS / file).exists()]


def work(url: str) -> list[object]:
    """What the model says: a call for each of its tools, and some that go wrong."""
    sketch = "# ... existing code ...\nb = 3\n"
    return [
        Truncated(Reply("half a reply"), after=2),
        call("think", thought="Look first."),
        call("todo", tasks=[{"title": "all of it"}]),
        call("write", path="new.py", content="a = 1\n"),
        call("edit", path="new.py", old_str="a = 1", new_str="a = 1\nb = 2"),
        call("llm_edit", path="new.py", start=1, end=2, content=sketch),
        Reply("<merged>\na = 1\nb = 3\n</merged>"),
        call("read", path="new.py"),
        call("grep", pattern="b ="),
        call("glob", pattern="*.py"),
        call("bash", command="echo '* filter=x' > .git/info/attributes; echo done"),
        call("python", code="6 * 7"),
        call("memory", command="add", target="memory", text="Tests are run with pytest."),
        call("recall", event=1),
        call("fetch", url=url),
        call("ask", question="Which one?", options=["this", "that"]),
        call("mcp__plain__echo", text="hello"),
        call("delegate", agent="explorer", task="child: look around"),
        Reply("I looked around."),
        call("no_such_tool", x=1),
        call("bash", command="rm -rf /"),
        call("recall", compact="what is left"),
        Reply("A summary of it."),
        call("finish", status="success", answer="All done."),
    ]


def test_one_run_produces_them_and_is_stored_shown_gone_on_with_verified(agent, serve, repository):
    settings = agent.home / ".config" / "agent" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        SETTINGS.replace("{python}", json.dumps(sys.executable)).replace(
            "{server}", json.dumps(str(PLAIN))
        )
    )
    with serving({"/": html("<p>A page.</p>")}) as pages:
        server = serve([*work(pages.url), *[Reply("A summary, and more.")] * 4], sessions=9)
        options = ("--allow", pages.rule, "--allow", "mcp__plain__*", "--max-budget-usd", "9")
        waits = ("--set", "llm.retry_base_s=0")
        done = agent.use(server)("run", *options, *waits, "parent: use it all")
    assert "All done." in done.stdout, done.stderr
    told = json.dumps(server.requests[-1].body)
    (parent,) = (f for f in agent.sessions if not read_session(f).state.delegate_level)
    agent.ok("sessions", "rename", parent.name, "everything")
    agent.ok("compact", "everything")
    assert agent("undo", "-s", "everything").returncode == 0, told
    agent.ok("resume", "everything", "go on", "-m", "openai/gpt-5.5")
    stored = [json.loads(path.read_text()) for path in sorted((parent / "events").glob("*.json"))]
    for side, kinds in BY_ONE_RUN.items():
        assert kinds - {record.get(side) for record in stored} == set()
    shown = agent.ok("sessions", "show", "everything", "--full")
    for text in ("fetch", "status 200", "Which one?", "echo", "llm_edit", "no_such_tool"):
        assert text in shown.stdout
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", shown.stdout)
    assert git(repository, "log", "--oneline").count("\n") == 1
    agent.ok("replay", "everything", "--verify")
