"""Commands choose their session in one way: the newest here, -s, an id, its start or a name."""

from __future__ import annotations

import json

import pytest

from agentcli.sessions.finder import state_of
from tests.scripted import write
from tests.server import Reply


@pytest.fixture
def two(agent, serve):
    """Sessions `older`, named so, and one without a name that was used last."""
    script = [write("a.txt", "one"), Reply("Older."), write("a.txt", "two"), Reply("Newer.")]
    agent.use(serve(script, sessions=2))
    agent.ok("run", "first", "--name", "older", "--yolo")
    agent.ok("run", "second", "--yolo")
    return agent


COMMANDS = (
    ["sessions", "show", "--json"],
    ["sessions", "export"],
    ["context", "--json"],
    ["compact", "--json"],
    ["diff", "--json"],
    ["fork", "--json"],
    ["undo", "--force", "--json"],
    ["rewind", "--to", "2", "--json"],
)


def id_of(agent, task: str) -> str:
    return next(folder.name for folder in agent.sessions if state_of(folder).title == task)


def test_the_newest_here_unless_another_is_named(two):
    older, newer = id_of(two, "first"), id_of(two, "second")
    for extra in ([], ["older"], [older], ["-s", "older"], ["--session", older]):
        told = json.loads(two("context", "--json", *extra).stdout)
        assert told["session_id"] == (older if extra else newer), extra
    both = two("diff", "older", "-s", "older")
    assert (both.returncode, "which session" in both.stderr) == (2, True)
    unknown = two("diff", "-s", "odler")
    assert (unknown.returncode, "did you mean older?" in unknown.stderr) == (2, True)


def test_each_command_takes_the_option_and_goes_without(two):
    for command in COMMANDS:
        named = two(*command, "-s", "older")
        assert named.returncode == 0, named.stderr
        assert two(*command).stdout not in ("", named.stdout), command


@pytest.mark.parametrize("command", COMMANDS[:3], ids=lambda words: "-".join(words))
def test_scripts_may_ask_for_the_newest_in_so_many_words(two, command):
    done = two(*command, "--last")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["session_id"] == id_of(two, "second")
    assert two(*command, "--last", "-s", "older").returncode == 2
    assert "--last" not in two(*command[:-1], "--help").stdout


def test_what_is_told_to_nobody_in_particular_is_told_to_the_newest(two):
    newer = id_of(two, "second")
    assert two("tell", "run the tests").stdout.startswith(f"{newer} gets this")
    assert two("tell", "-s", "older", "hello").stdout.startswith(id_of(two, "first"))
    forgotten = two("tell", "older")
    assert forgotten.returncode == 2
    assert "older is a session; what is the message?" in forgotten.stderr
    assert two("tell").returncode == 2
