"""`agent policy …` at the binary: rules tried on past sessions, and rules suggested by them."""

from __future__ import annotations

import json
import tomllib

import pytest

from agentcli.events.actions import CmdRunAction, FileEditAction
from agentcli.events.observations import DecisionObservation
from agentcli.sessions.session import Session
from tests.sessions.test_index import said, started

PAST = [
    ("git push origin main", "allow"),
    ("git push", "allow"),
    ("npm run build", "allow"),
    ("make clean", "allow"),
    ("make clean all", "deny"),
    ("python3 -c 'x'", "allow"),
    ("rm -rf build", "deny"),
    ("git push --force", ""),
    ("ls -la", ""),
]


@pytest.fixture
def past(agent):
    """Sessions on disk in which a person answered as in `PAST`."""

    def record(session_id: str, calls: list[tuple[str, str]], workspace: str = "") -> None:
        folder = agent.home / "state" / "sessions" / session_id
        with Session.create(folder) as session:
            session.emit(started(session_id, workspace or str(agent.workspace)))
            session.emit(said("do it"))
            for command, answer in calls:
                action = session.emit(CmdRunAction(command=command))
                if answer:
                    session.emit(DecisionObservation(cause=action.id, decision=answer, by="user"))
            session.emit(FileEditAction(path="src/x.py"))

    record("20250101-100000-aaaa", PAST)
    record("20250102-100000-bbbb", [("git push", "allow")])
    record("20250103-100000-cccc", [("make evil", "allow")], "/somewhere/else")
    return record


def test_rules_are_tried_on_the_sessions_of_this_folder(agent, past):
    done = agent(
        "policy", "test", "bash(git push:*)", "deny bash(rm:*)", "ask bash(git push --force)"
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "allow   2x  git push  [bash(git push:*)]" in lines
    assert "allow       ls -la  [read]" in lines
    assert "ask         git push --force  [bash(git push --force)]" in lines
    assert "deny        rm -rf build  [bash(rm:*)]" in lines
    assert lines[-1] == "4 allowed, 7 asked, 1 denied"
    assert "evil" not in done.stdout


def test_rules_can_come_from_a_file_and_sessions_be_chosen(agent, past):
    file = agent.workspace / "rules.toml"
    file.write_text('[security]\nallow = ["bash(git push)"]\ndeny = ["edit(src/**)"]\n')
    done = agent("policy", "test", str(file), "--against", "20250102", "--json")
    result = json.loads(done.stdout)
    assert result["counts"] == {"allow": 1, "ask": 0, "deny": 1}
    first, second = result["actions"]
    assert (first["text"], first["decision"], first["answered"]) == ("git push", "allow", "allow")
    assert (second["tool"], second["rule"]) == ("edit", "edit(src/**)")


def test_the_fewest_rules_for_what_was_approved_are_suggested(agent, past):
    done = agent("policy", "suggest")
    assert tomllib.loads(done.stdout) == {
        "security": {"allow": ["bash(git push:*)", "bash(npm run build:*)"]}
    }
    assert "4 of 6 approvals are covered" in done.stderr
    again = agent("policy", "suggest", "--json", "--against", "20250102")
    assert json.loads(again.stdout) == {
        "allow": ["bash(git push:*)"],
        "covered": 1,
        "approved": 1,
    }


def test_no_rule_is_suggested_that_would_not_cover_what_was_approved(agent):
    folder = agent.home / "state" / "sessions" / "20250104-100000-dddd"
    with Session.create(folder) as session:
        start = started(folder.name, str(agent.workspace))
        session.emit(start.model_copy(update={"sandbox": "bubblewrap"}))
        session.emit(said("do it"))
        for action, answer in [
            (CmdRunAction(command="git push origin main", unsandboxed=True, reason="ssh"), "allow"),
            (CmdRunAction(command="git push --force origin main", network=True), "allow"),
            (CmdRunAction(command="npm install left-pad", network=True), "allow"),
            (CmdRunAction(command="make one && make two", network=True), "allow"),
            (CmdRunAction(command="make two", network=True), "deny"),
        ]:
            asked = session.emit(action)
            session.emit(DecisionObservation(cause=asked.id, decision=answer, by="user"))
    done = agent("policy", "suggest")
    assert tomllib.loads(done.stdout) == {
        "security": {"allow": ["bash(npm install left-pad)", "unsandboxed(git push origin main)"]}
    }
    assert "2 of 4 approvals are covered" in done.stderr
    assert "1 of high risk" in done.stderr


def test_what_is_suggested_can_be_used_as_it_is(agent, past):
    file = agent.workspace / "suggested.toml"
    file.write_text(agent("policy", "suggest").stdout)
    done = agent("policy", "test", str(file), "--json")
    decided = {each["text"]: each["decision"] for each in json.loads(done.stdout)["actions"]}
    assert decided["git push"] == "allow"
    assert decided["make clean all"] == "ask"
    assert decided["rm -rf build"] == "ask"


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["bash(ls; rm)"], 3, "each part of a compound"),
        (["bsh(ls)"], 3, "did you mean bash"),
        (["missing.toml"], 2, "can't be read"),
        (["bash(ls)", "--against", "nonsense"], 2, "no session"),
    ],
)
def test_what_can_not_be_tried_is_told(agent, past, arguments, code, told):
    done = agent("policy", "test", *arguments)
    assert done.returncode == code
    assert told in done.stderr
