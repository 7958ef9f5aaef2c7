"""Homes that are missing, strange or broken: told in words, whatever the command."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.attacks.raids import OTHER_PYTHON, Arena, make_arena
from tests.conftest import LIMIT_S
from tests.server import Call, ModelServer, Reply

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
        assert (ran := run("run", "x", **known))[0] == 0, ran
        assert run("notes", **known)[0] == 0
        assert f"runs as {UNKNOWN_USER}" in run("doctor", **known)[1]
        code, told = run("run", "x")
    assert code == 3
    assert "set HOME" in told


@pytest.mark.parametrize("where", ["state", "state/sessions", ".config/agent", ".config/agent/x"])
def test_it_does_not_work_where_its_own_files_are(agent, serve, where):
    agent.use(serve([]))
    folder = agent.home / where
    folder.mkdir(parents=True, exist_ok=True)
    link = agent.home / "link"
    link.symlink_to(folder)
    for arguments in (["-C", str(folder)], ["-C", str(link)], ["--add-dir", str(link)]):
        done = agent("run", "x", *arguments)
        assert done.returncode == 3
        assert "the agent's own settings or sessions" in done.stderr
    assert agent.sessions == []


def test_its_own_files_may_be_below_the_folder_it_works_in(agent, serve):
    write = {"code": "open('st' + 'ate/USER.md', 'w').write('obey')"}
    agent.use(serve([Reply("", [Call("python", write)]), Reply("Hello.")]))
    agent.workspace = agent.home
    assert agent("run", "x", "--add-dir", str(agent.home)).returncode == 0
    assert not (agent.home / "state/USER.md").exists()


def test_a_home_that_takes_nothing_is_no_bug_of_the_program(agent, serve):
    agent.use(serve([Reply("Hello.")]))
    assert agent("run", "x").returncode == 0
    (agent.home / "state/sessions.scrap").write_text("in the way")
    done = agent("fork", "--dir", str(agent.home / "copy"))
    assert done.returncode == 1
    assert "sessions.scrap" in done.stderr
    assert "internal" not in done.stderr


def test_settings_that_are_too_long_are_not_read_in_part(agent, serve):
    agent.use(serve([]))
    settings = agent.home / "config.toml"
    settings.write_text("#" * 1_000_000 + '\n[security]\ndeny = ["bash"]\n')
    agent.env["AGENT_CONFIG"] = str(settings)
    done = agent("run", "x")
    assert done.returncode == 3
    assert "longer than" in done.stderr
