"""A file outside of what a session was given that looks like a secret is asked about, though no
list of places knows it."""

from __future__ import annotations

import json

import pytest

from tests.cli.test_reading_rules import one_call_each, told
from tests.scripted import bash
from tests.server import Call

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\ncanary\n"
SECRETS = {
    "tool/settings.cfg": ("canary\n", 0o600),
    "vault.kdbx": ("canary\n", 0o644),
    "project/.env.local": ("canary\n", 0o644),
    "project/aws-credentials.json": ("canary\n", 0o644),
    "project/server.pem": (f"certificate\n{KEY}", 0o644),
    "project/vpn.ovpn": (KEY, 0o644),
    "project/prod.env.bak": ("canary\n", 0o644),
    ".zshrc": ("export TOKEN=canary\n", 0o644),
}
OTHERS = {
    "project/notes.txt": "needle, not a canary\n",
    "project/.env.example": "needle\n",
    "project/secrets.py": "needle\n",
    "project/site-packages/certs/key.pem": KEY.replace("canary", "needle"),
}


@pytest.fixture
def home(agent):
    for name, (text, mode) in SECRETS.items():
        path = agent.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
    for name, text in OTHERS.items():
        path = agent.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return agent.home


def test_what_looks_like_a_secret_is_not_read_unasked(agent, serve, home):
    (agent.workspace / ".env").write_text("needle of the workspace\n")
    (agent.workspace / "link").symlink_to(home / "vault.kdbx")
    reads = [Call("read", {"path": str(home / name)}) for name in (*SECRETS, *OTHERS)]
    more = [
        Call("read", {"path": "link"}),
        Call("grep", {"pattern": "canary|needle", "path": str(home / "project")}),
        Call("grep", {"pattern": "needle"}),
    ]
    server = serve(one_call_each(*reads, *more))
    done = agent.use(server)("run", "--no-sandbox", "x")
    assert done.returncode == 5, done.stderr
    results = told(server)
    for name, result in zip((*SECRETS, *OTHERS), results, strict=False):
        assert result.startswith("Not allowed: it ") is (name in SECRETS), (name, result)
    linked, searched, inside = results[-3:]
    assert linked.startswith("Not allowed: it has the name of a secret")
    assert "notes.txt" in searched
    assert "needle of the workspace" in inside
    sent = json.dumps([request.body for request in server.requests])
    assert sent.count("canary") == sent.count("not a canary") + sent.count("canary|needle")


def test_a_rule_or_yolo_lets_it_be_read(agent, serve, home):
    calls = [
        Call("read", {"path": str(home / "project/.env.local")}),
        Call("grep", {"pattern": "canary", "path": str(home / "project")}),
    ]
    for flags in (["--allow", f"read({home}/project/**)"], ["--yolo"]):
        server = serve(one_call_each(*calls))
        done = agent.use(server)("run", "--no-sandbox", *flags, "x")
        assert done.returncode == 0, done.stderr
        read, searched = told(server)
        assert "canary" in read
        assert "3 more" in searched or searched.count("canary") >= 4, searched


def test_commands_outside_the_sandbox_do_not_show_it_unasked_either(agent, serve, home):
    refused = ["cat ~/.zshrc", "head -1 ~/tool/*", "cd ~/project && cat .env.local"]
    allowed = ["ls -l ~/.zshrc", "cat ~/project/notes.txt", "tail ~/vault.kdbx"]
    server = serve([*map(bash, (*refused, *allowed)), *one_call_each()])
    flags = ["--no-sandbox", "--allow", "bash(tail ~/vault.kdbx)"]
    done = agent.use(server)("run", *flags, "x")
    assert done.returncode == 0, done.stderr
    results = told(server)
    for command, result in zip(refused, results, strict=False):
        assert "it names a file that looks like a secret" in result, command
    for command, result in zip(allowed, results[len(refused) :], strict=True):
        assert "Not allowed" not in result, (command, result)
