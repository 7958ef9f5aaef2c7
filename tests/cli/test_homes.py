"""Homes that are missing, strange or broken: told in words, whatever the command."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.attacks.raids import OTHER_PYTHON, Arena, make_arena
from tests.conftest import LIMIT_S
from tests.server import ModelServer, Reply

UNKNOWN_USER = 54_321
"""Of whom the system knows no name and no home."""


@pytest.mark.parametrize(
    "flags",
    [
        ["--add-dir", "~nosuch/x"],
        ["--set", "agent.prompt=~nosuch/x"],
        ["-C", "~nosuch/x"],
        ["-m", "scripted/~nosuch/x"],
    ],
    ids=lambda flags: flags[0],
)
def test_the_home_of_nobody_is_named(agent, serve, flags):
    agent.use(serve([]))
    done = agent("run", "x", *flags)
    assert done.returncode == 3, done.stderr
    assert "~nosuch/x" in done.stderr


@pytest.mark.skipif(OTHER_PYTHON is None, reason="only root can be somebody else")
def test_a_user_without_a_home_can_work():
    with make_arena("auto", "nobody") as place:
        for path in (place.base, *place.base.rglob("*")):
            os.chown(path, UNKNOWN_USER, UNKNOWN_USER, follow_symlinks=False)
        work_without_a_home(place)


def work_without_a_home(place: Arena) -> None:
    def run(*arguments: str, **variables: str) -> tuple[int, str]:
        environment = {k: v for k, v in place.agent.environment.items() if k[-4:] != "HOME"}
        done = subprocess.run(
            [*place.agent.command, *arguments],
            cwd=place.workspace,
            env=environment | variables,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=LIMIT_S,
            user=UNKNOWN_USER,
            group=UNKNOWN_USER,
            extra_groups=[],
        )
        told = (done.stdout + done.stderr).decode()
        assert "Traceback" not in told
        return done.returncode, told

    known = {"AGENT_HOME": str(place.home / "state"), "AGENT_CONFIG": str(place.home / "x.toml")}
    with ModelServer([Reply("Hello.")], models=["gpt-5.5"]) as server:
        place.agent.use(server)
        assert run("run", "x", **known)[0] == 0
        assert run("notes", **known)[0] == 0
        assert f"runs as {UNKNOWN_USER}" in run("doctor", **known)[1]
        code, told = run("run", "x")
    assert code == 3
    assert "set HOME" in told


def test_settings_that_are_too_long_are_not_read_in_part(agent, serve):
    agent.use(serve([]))
    settings = agent.home / "config.toml"
    settings.write_text("#" * 1_000_000 + '\n[security]\ndeny = ["bash"]\n')
    agent.env["AGENT_CONFIG"] = str(settings)
    done = agent("run", "x")
    assert done.returncode == 3
    assert "longer than" in done.stderr
