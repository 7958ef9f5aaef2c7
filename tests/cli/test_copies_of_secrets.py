"""A copy of the files is elsewhere, where no list of places hides the secrets among them."""

from __future__ import annotations

import json

from tests.scripted import bash, scripted
from tests.server import Reply


def test_files_with_secrets_among_them_are_not_copied_for_a_session(agent):
    work = agent.home / ".config"
    secret = work / "gh/hosts.yml"
    secret.parent.mkdir(parents=True)
    secret.write_text("oauth_token: canary\n")
    model = scripted(agent.home / "model", bash("cat gh/hosts.yml"), Reply("Done."))
    agent.env["AGENT_MODEL"] = model
    assert agent("run", "x", cwd=work).returncode == 0
    tasks = agent.home / "tasks.jsonl"
    listed = [
        {"id": "one", "prompt": "x", "workspace": str(work)},
        {"id": "two", "prompt": "x", "workspace": str(agent.home)},
    ]
    tasks.write_text("\n".join(map(json.dumps, listed)))
    out = agent.workspace / "out"
    for command in (
        ["fork", "--dir", str(agent.workspace / "fork")],
        ["replay", "--save", str(agent.workspace / "recording")],
        ["run", "--tries", "2", "--check", "true", "x"],
        ["batch", str(tasks), "--out", str(out)],
    ):
        done = agent(*command, cwd=work)
        assert done.returncode != 0, command
        assert "is not copied: in a copy," in done.stderr, done.stderr
    copies = [path for path in agent.workspace.rglob("*") if path.is_file()]
    assert not any(b"canary" in path.read_bytes() for path in copies)
    said = [path.read_text() for folder in agent.sessions for path in folder.rglob("events/*")]
    assert not any("canary" in text for text in said)
