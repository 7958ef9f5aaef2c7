"""The user's rules about reading hold for whatever opens a file, not only for the call that names
it."""

from __future__ import annotations

import json

from tests.server import Call, Reply
from tests.workspace.test_images import png

RULES = ("--set", 'security.deny=["read(*.pem)", "grep(notes/**)", "read(*.png)"]')
ASKS = ("--set", 'security.ask=["read(*.asked)"]')


def told(server) -> list[str]:
    messages = server.requests[-1].body["messages"]
    return [m["content"] for m in messages if m["role"] == "tool"]


def one_call_each(*calls: Call) -> list[Reply]:
    return [*(Reply("", [call]) for call in calls), Reply("Done.")]


def test_what_rules_keep_from_being_read_is_read_by_no_tool(agent, serve):
    work = agent.workspace
    (work / "a.txt").write_text("needle in a file for all\n")
    (work / "certs").mkdir()
    (work / "certs/key.pem").write_text("needle and secret\n")
    (work / "why.asked").write_text("needle and asked\n")
    (work / "notes").mkdir()
    (work / "notes/n.txt").write_text("needle and noted\n")
    (work / "link.txt").symlink_to("certs/key.pem")
    (work / "AGENTS.md").symlink_to("certs/key.pem")
    (work / ".agents/skills/one").mkdir(parents=True)
    (work / ".agents/skills/one/SKILL.md").symlink_to("../../../certs/key.pem")
    (work / "shot.png").write_bytes(png())
    change = {"path": "certs/key.pem", "old_str": "needle", "new_str": "n"}
    calls = [
        Call("grep", {"pattern": "needle"}),
        Call("grep", {"pattern": "need(?=le)"}),
        Call("grep", {"pattern": "needle", "path": "certs"}),
        Call("glob", {"pattern": "**/*"}),
        Call("read", {"path": "certs"}),
        Call("read", {"path": "link.txt"}),
        Call("read", {"path": "why.asked"}),
        Call("edit", change),
        Call("write", {"path": "certs/key.pem", "content": "x"}),
        Call("edit", {**change, "path": "why.asked"}),
        Call("llm_edit", {"path": "link.txt", "start": 1, "end": 1, "content": "x"}),
        Call("write", {"path": "new.pem", "content": "x"}),
        Call("read", {"path": "certs/key.pe"}),
        Call("read", {"path": "notes/n.txt"}),
    ]
    server = serve(one_call_each(*calls))
    on = ("--set", "tools.enable_llm_editor=true")
    done = agent.use(server)("run", *RULES, *ASKS, *on, "x")
    assert done.returncode == 0, done.stderr
    searched, by_python, inside, found, listed, *others, edited, created, missing, noted = told(
        server
    )
    for each in (searched, by_python):
        assert "for all" in each
        assert not any(word in each for word in ("secret", "asked", "noted", "could not")), each
    assert inside == "No matches in certs"
    assert "why.asked" in found
    assert "key.pem" not in found + listed + missing
    for refused in (*others, edited):
        assert "Not allowed: the rule read(" in refused
    assert created.startswith("Created new.pem")
    assert "needle and noted" in noted
    sent = json.dumps([request.body for request in server.requests])
    assert "and secret" not in sent
    assert "needle and asked" not in sent
    assert (work / "certs/key.pem").read_text() == "needle and secret\n"
    assert "AGENTS.md may not be read: the rule read(*.pem) of security.deny denies it" in (
        done.stderr
    )
    assert "SKILL.md may not be read: the rule read(*.pem)" in done.stderr


def test_what_must_be_asked_about_is_searched_in_yolo(agent, serve):
    (agent.workspace / "why.asked").write_text("needle and asked\n")
    (agent.workspace / "key.pem").write_text("needle and secret\n")
    server = serve(one_call_each(Call("grep", {"pattern": "needle"})))
    done = agent.use(server)("run", *RULES, *ASKS, "--yolo", "x")
    assert done.returncode == 0, done.stderr
    assert "needle and asked" in told(server)[0]
    assert "secret" not in told(server)[0]


def test_an_image_is_not_attached_against_a_rule(agent, serve):
    (agent.workspace / "shot.png").write_bytes(png())
    (agent.workspace / "other").symlink_to("shot.png")
    server = serve([Reply("Seen.")])
    done = agent.use(server)("run", *RULES, "-i", "other", "what is this?")
    assert done.returncode == 2
    assert "other may not be read: the rule read(*.png) of security.deny denies it" in done.stderr
    assert server.requests == []
