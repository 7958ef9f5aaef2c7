"""The environment that commands see."""

from __future__ import annotations

import pytest

from agentcli.sandbox.environment import command_environment, session_caches

USUAL = {
    "PATH": "/usr/bin",
    "HOME": "/home/a",
    "LC_ALL": "C",
    "VIRTUAL_ENV": "/v",
    "CARGO_HOME": "/c",
    "NODE_ENV": "test",
    "https_proxy": "http://proxy:3128",
    "GIT_AUTHOR_NAME": "A",
}


def test_what_is_usual_is_kept_and_nothing_waits_for_a_person():
    seen = command_environment({**USUAL, "EDITOR": "vim", "MY_THING": "1"}, (), "s")
    assert seen.items() >= USUAL.items()
    assert (seen["EDITOR"], seen["GIT_TERMINAL_PROMPT"], seen["AGENT_SESSION_ID"]) == (
        *("true", "0"),
        "s",
    )
    assert "MY_THING" not in seen


def test_how_programs_colour_is_the_persons_choice():
    colours = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "FORCE_COLOR": "1"}
    assert command_environment({**USUAL, **colours}, (), "s").items() >= colours.items()
    assert not {"TERM", "NO_COLOR"} & command_environment(USUAL, (), "s").keys()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NPM_CONFIG__AUTH", "abc"),
        ("NODE_AUTH_TOKEN", "abc"),
        ("CARGO_REGISTRY_TOKEN", "abc"),
        ("POETRY_HTTP_BASIC_X_PASSWORD", "abc"),
        ("UV_INDEX_URL", "https://user:secret@example.org"),
        ("HTTPS_PROXY", "http://user:secret@proxy:3128"),
        ("PIP_INDEX_URL", "https://__token__:pypi-0123456789012345678901234567890123@x"),
        ("LC_ALL", "ghp_" + "a" * 36),
        ("AWS_SECRET_ACCESS_KEY", "abc"),
        ("GITHUB_TOKEN", "abc"),
    ],
)
def test_what_looks_secret_is_left_out(name, value):
    for extra in ((), (name[:4] + "*",)):
        assert name not in command_environment({**USUAL, name: value}, (), "s", extra=extra)


def test_what_the_person_names_is_kept_but_never_the_keys_of_models():
    environ = {"DATABASE_URL": "postgres://a:b@c/d", "MY_A": "1", "MY_KEY": "2", "OPENAI_KEY": "3"}
    extra = ["DATABASE_URL", "MY_*", "OPENAI_KEY"]
    seen = command_environment(environ, ["OPENAI_KEY"], "s", extra=extra)
    assert (seen["DATABASE_URL"], seen["MY_A"]) == ("postgres://a:b@c/d", "1")
    assert not {"MY_KEY", "OPENAI_KEY"} & seen.keys()


def test_ways_to_daemons_are_for_commands_outside_a_sandbox():
    ways = {"SSH_AUTH_SOCK": "/a", "DBUS_SESSION_BUS_ADDRESS": "unix:path=/b", "DISPLAY": ":0"}
    assert command_environment(ways, (), "s").items() >= ways.items()
    assert not ways.keys() & command_environment(ways, (), "s", contained=True).keys()


def test_caches_are_the_sessions_and_what_is_installed_there_stays_found(tmp_path):
    (tmp_path / ".cache/pre-commit").mkdir(parents=True)
    (tmp_path / "tmp").mkdir()
    seen = session_caches("/tmp", tmp_path / "tmp", tmp_path)
    assert (seen["TMPDIR"], seen["PIP_CACHE_DIR"]) == ("/tmp", "/tmp/.cache/pip")
    assert (tmp_path / "tmp/.cache/pre-commit").resolve() == tmp_path / ".cache/pre-commit"
    assert session_caches("/tmp", tmp_path / "tmp", tmp_path) == seen
