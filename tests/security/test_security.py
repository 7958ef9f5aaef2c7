"""What runs unasked, and what is never written down."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.events.actions import CmdRunAction, FileEditAction, FileReadAction, FileWriteAction
from agentcli.runtime.files import FileLedger
from agentcli.security.policy import Policy
from agentcli.security.redact import MASK, Redactor
from tests.strategies import json_values

EFFECTS = {"run": "execute", "read": "read", "write": "write", "edit": "write"}


@pytest.fixture
def decide(tmp_path):
    workspace = tmp_path / "work"
    workspace.mkdir()
    (workspace / "link").symlink_to("/etc")
    policy = Policy("ask", workspace, lambda a: EFFECTS[a.kind], FileLedger(workspace).locate)
    return lambda action, *grants: policy.decide(action, grants).decision


def test_reading_and_edits_inside_run_commands_are_asked(decide):
    assert decide(FileReadAction(path="/etc/passwd")) == "allow"
    assert decide(FileWriteAction(path="a/b.txt", content="")) == "allow"
    assert decide(CmdRunAction(command="ls")) == "ask"
    assert decide(CmdRunAction(command="ls"), "all commands") == "allow"


@pytest.mark.parametrize(
    "path", ["/etc/x", "../x", "a/../../x", "~/x", "link/x", "$'/etc/x'", "$'\\x2fetc/x'"]
)
def test_writes_outside_are_asked_however_they_are_spelled(decide, path):
    assert decide(FileEditAction(path=path)) == "ask"
    assert decide(FileEditAction(path=path), "all commands") == "ask"
    assert decide(FileEditAction(path=path), "all writes outside the workspace") == "allow"


def test_yolo_asks_nothing():
    policy = Policy("yolo", Path("/"), lambda a: EFFECTS[a.kind], Path)
    assert policy.decide(CmdRunAction(command="rm x"), ()).decision == "allow"


@pytest.mark.parametrize(
    "secret",
    [
        "sk-ant-" + "x1Y-" * 8,
        "sk-proj-abcdefghijklmnopqrstuvwx",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "AKIAIOSFODNN7EXAMPLE",
        "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
        "my-own-secret-value",
    ],
)
@given(before=st.text(max_size=5), data=json_values)
def test_secrets_are_masked_at_any_depth(secret, before, data):
    redact = Redactor(["my-own-secret-value"])
    masked = redact({"a": [data, {"b": f"{before} {secret} "}], f"key {secret}": 1})
    assert secret not in str(masked)
    assert MASK in str(masked)


def test_a_password_in_an_address_is_masked_and_the_rest_stays():
    masked = Redactor().text("git clone https://me:hunter22@example.org/x.git")
    assert masked == f"git clone https://{MASK}@example.org/x.git"


@given(json_values)
def test_what_holds_no_secret_is_the_same_object(data):
    assert Redactor(["my-own-secret-value"])(data) is data
