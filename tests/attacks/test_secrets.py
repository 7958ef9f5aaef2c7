"""A key that a tool comes upon, in any disguise, reaches neither disk, screen nor model."""

from __future__ import annotations

import base64

import pytest

from tests.server import Call, Reply

pytestmark = pytest.mark.own_start

KEY = "sk-test-0123456789abcdef"
"""What `agent.use` sets; long and odd enough to be searched for everywhere."""
OTHER = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1eF3hJ5"


def test_our_key_and_keys_of_others_are_stored_and_sent_nowhere(agent, serve):
    (agent.workspace / "notes").write_text(
        f"plain {KEY}\nbase64 {base64.b64encode(KEY.encode()).decode()}\nhex {KEY.encode().hex()}\n"
        f"other {OTHER}\nurl https://me:hunter2hunter2@example.org\n"
    )
    server = serve(
        [
            Reply("", [Call("read", {"path": "notes"})]),
            Reply("", [Call("grep", {"pattern": ".", "path": "notes"})]),
            Reply(f"The key is {KEY}, or {OTHER}."),
        ]
    )
    agent.use(server)
    done = agent("run", f"what is {OTHER}?")
    secrets = [KEY, OTHER, "hunter2hunter2", KEY.encode().hex()]
    secrets.append(base64.b64encode(KEY.encode()).decode()[:28])
    stored = b"".join(
        path.read_bytes() for path in (agent.home / "state").rglob("*") if path.is_file()
    )
    sent = "".join(str(request.body) for request in server.requests)
    for secret in secrets:
        assert secret.encode() not in stored
        assert secret not in done.stdout + done.stderr
        assert secret not in sent
    assert "[redacted]" in done.stdout
