"""Files that the agent itself writes where the user says: no link that a command left leads it to
what only the user may write."""

from __future__ import annotations

import resource

from tests.scripted import bash, scripted
from tests.server import Reply

LINKS = """
rmdir reports
ln -s ../home/.bash_aliases answer.md
ln -s ../home/.config reports
ln -s ../home/.profile .mcp.json
mkdir .agent
ln -s ../../home/settings.toml .agent/config.toml
ln -s ../home/.config/autostart new
"""


def test_no_link_that_a_command_left_leads_what_the_agent_writes_out_of_the_workspace(agent):
    (agent.home / ".config").mkdir()
    (agent.workspace / "reports").mkdir()
    (agent.workspace / "mine.md").symlink_to(agent.home / "mine.md")
    agent.env["AGENT_MODEL"] = scripted(agent.home / "model", bash(LINKS), Reply("touch ran"))
    before = sorted(agent.home.iterdir())
    done = agent("run", "x", "-o", "answer.md", "--record", "reports/run.jsonl")
    assert done.stdout == "touch ran\n"
    assert "the answer is not written: answer.md leads through a link" in done.stderr
    assert "reports leads through a link" in done.stderr
    assert done.returncode == 1
    for command in (
        ["sessions", "export", "-f", "markdown", "-o", "answer.md"],
        ["sessions", "export", "-o", "mine.md"],
        ["sessions", "export", "-o", str(agent.home / "state/../../work/reports/x.json")],
        ["replay", "--save", "reports/run.jsonl"],
        ["fork", "--dir", "new"],
        ["mcp", "add", "--project", "foo", "--", "echo"],
        ["config", "set", "--project", "agent.max_turns", "5"],
    ):
        done = agent(*command)
        assert done.returncode == 2, command
        assert "leads through a link" in done.stderr, command
    assert sorted(agent.home.iterdir()) == before
    assert list((agent.home / ".config").iterdir()) == []
    named = agent.home / "named"
    named.symlink_to(agent.home / "there.json")
    assert agent("sessions", "export", "-o", str(named)).returncode == 0
    assert (agent.home / "there.json").is_file()
    assert named.is_symlink()


def test_an_agent_that_crashes_leaves_no_core_with_its_keys(agent):
    """Its folder is the workspace, and its memory holds keys."""
    limits = bash("cat /proc/$PPID/limits > limits")
    agent.env["AGENT_MODEL"] = scripted(agent.home / "model", limits, Reply("Done."))
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    process = agent.start(
        *("run", "--no-sandbox", "--yolo", "x"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (hard, hard)),
    )
    _, told = process.communicate()
    assert process.returncode == 0, told.decode()
    said = (agent.workspace / "limits").read_text()
    (row,) = (row for row in said.splitlines() if row.startswith("Max core file size"))
    assert row.split()[4] == "0"
