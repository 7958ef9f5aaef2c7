"""Keys in the environment stay out of reach, and what contained commands do to theirs does not
change what an approved command means."""

from __future__ import annotations

import re
from collections.abc import Callable

import pexpect
import pytest

from tests.attacks.raids import ALL_RIGHTS, BEST, KEY, Arena, bash
from tests.conftest import LIMIT_S
from tests.sandbox.sandboxes import LAYERS
from tests.server import Call, ModelServer, Reply

SIDES = [*LAYERS, "none"]
every_side = pytest.mark.parametrize("layer", SIDES)
SECRETS = {
    "GITHUB_TOKEN": "anything",
    "AWS_SECRET_ACCESS_KEY": "anything",
    "DATABASE_URL": "postgres://me:hunter2@localhost/db",
    "NPM_CONFIG__AUTH": "anything",
    "MY_UNHEARD_OF_THING": "value",
    "PIP_INDEX_URL": "https://me:hunter2@localhost/simple",
}


def flags(layer: str) -> list[str]:
    return ["--yolo", *(["--no-sandbox"] if layer == "none" else [])]


@pytest.mark.own_start
@every_side
def test_keys_are_in_no_environment(arena, layer):
    """Written down in the workspace, where no mask would hide them."""
    place = arena(layer)
    place.agent.env |= SECRETS
    dump = "open('from-{}', 'w').write(repr(dict(__import__('os').environ)))"
    calls = [
        bash("env > from-bash; declare -p >> from-bash"),
        bash("env > from-job", background=True),
        bash("env > from-wider; declare -p >> from-wider", **ALL_RIGHTS),
        Call("python", {"code": dump.format("python")}),
        bash("until [ -e from-job ]; do sleep 0.02; done"),
    ]
    place.does(calls, *flags(layer))
    for name in ("bash", "job", "wider", "python"):
        text = (place.workspace / f"from-{name}").read_text()
        assert "PATH" in text
        assert KEY not in text, name
        assert "hunter2" not in text, name
        assert [secret for secret in SECRETS if re.search(rf"\b{secret}\b", text)] == [], name


POISON = {
    "PATH": "export PATH=$PWD/bin:$PATH",
    "PATH in front of a relative folder": "export PATH=bin:.:$PATH",
    "a function": "uname() { echo poisoned; > ../outside/poisoned; }",
    "an exported function": "uname() { echo poisoned; > ../outside/poisoned; }; export -f uname",
    "a function by the environment": "export 'BASH_FUNC_uname%%=() { echo poisoned; }'; exec bash",
    "an alias": "shopt -s expand_aliases; alias uname='echo poisoned'",
    "the table of commands": "hash -p $PWD/bin/uname uname",
    "a trap": "trap '> ../outside/poisoned' DEBUG; set -T",
    "a trap of errors": "trap '> ../outside/poisoned' ERR EXIT; set -E",
    "the prompt": "export PROMPT_COMMAND='> ../outside/poisoned' PS1='$(uname)' PS0='$(uname)'",
    "BASH_ENV": "export BASH_ENV=$PWD/start ENV=$PWD/start",
    "LD_PRELOAD": "export LD_PRELOAD=$PWD/bin/library.so LD_AUDIT=$PWD/bin/library.so",
    "LD_LIBRARY_PATH": "cp /bin/true libc.so.6; export LD_LIBRARY_PATH=$PWD",
    "SHELLOPTS": "export SHELLOPTS BASHOPTS; set -xv",
    "HOME": "export HOME=$PWD XDG_CONFIG_HOME=$PWD",
    "git": "export GIT_SSH_COMMAND=$PWD/bin/uname GIT_EXTERNAL_DIFF=$PWD/bin/uname "
    "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.fsmonitor GIT_CONFIG_VALUE_0=$PWD/bin/uname "
    "GIT_EXEC_PATH=$PWD/bin GIT_DIR=$PWD/evil GIT_PAGER=$PWD/bin/uname",
    "python": "export PYTHONPATH=$PWD PYTHONSTARTUP=$PWD/start PYTHONHOME=$PWD",
    "other languages": "export NODE_OPTIONS=--require=./start PERL5OPT=-Mstart RUBYOPT=-rstart",
    "pagers": "export PAGER=bin/uname EDITOR=bin/uname LESSOPEN='|bin/uname'",
    "a path that hides in another variable": "export IFS=/ CDPATH=/ GLOBIGNORE='*'",
    "the folder": "mkdir uname; cd uname; PWD=/; OLDPWD=/",
    "builtins": "enable -n echo; builtin() { > ../outside/poisoned; }; command() { uname; }",
    "read-only variables": "readonly PATH=$PWD/bin; readonly PWD HOME",
    "another program for the shell": "exec bin/uname",
}
APPROVED = "uname; git status >/dev/null 2>&1; python3 -c 'print(6 * 7)'; echo $((1 + 1))"


@pytest.fixture
def poisoned(arena) -> Callable[..., Arena]:
    """A workspace with programs that leave a trace where only commands with all rights can."""

    def make(layer: str) -> Arena:
        place = arena(layer)
        folder = place.workspace / "bin"
        folder.mkdir()
        for name in ("uname", "git", "python3", "bash", "sh", "env"):
            program = folder / name
            program.write_text(f"#!/bin/sh\necho poisoned; : > {place.outside}/poisoned\n")
            program.chmod(0o755)
        (place.workspace / "start").write_text(f": > {place.outside}/poisoned\n")
        trace = f"open({str(place.outside / 'poisoned')!r}, 'w')\n"
        (place.workspace / "sitecustomize.py").write_text(trace)
        return place

    return make


@pytest.mark.parametrize("poison", POISON.values(), ids=POISON)
def test_an_approved_command_is_what_runs(poisoned, poison):
    place = poisoned(BEST)
    calls = [bash(poison)]
    calls += [bash(APPROVED, **ALL_RIGHTS)]
    run = place.does(calls, "--yolo")
    assert "Linux\n42\n2" in run.told[1]
    assert "poisoned" not in run.told[1]
    assert not (place.outside / "poisoned").exists()


def test_a_person_approves_and_just_that_runs(poisoned):
    place = poisoned(BEST)
    names = ("PATH", "an exported function", "BASH_ENV", "the folder")
    everything = "; ".join(POISON[name] for name in names)
    spawn = place.agent
    call = bash(f"{APPROVED}; cat /proc/self/status", **ALL_RIGHTS)
    script = [Reply("", [bash(everything)]), Reply("", [call]), Reply("Done.")]
    with ModelServer(script) as server:
        spawn.use(server)
        child = pexpect.spawn(
            spawn.command[0],
            [*spawn.command[1:], "run", "x"],
            cwd=str(place.workspace),
            env={**spawn.environment, "TERM": "dumb"},
            dimensions=(60, 120),
            timeout=LIMIT_S / 2,
            encoding="utf-8",
        )
        # The poison itself runs unasked, in the sandbox.
        child.expect("python3 -c 'print")
        child.expect(r"instead\r\n> ")
        assert "it would run in /" in " ".join(child.before.split())
        child.sendline("y")
        child.expect(pexpect.EOF)
        child.close()
        told = [m["content"] for m in server.requests[-1].body["messages"] if m["role"] == "tool"]
    assert "Linux\n42\n2" in told[1]
    assert "NoNewPrivs:\t0" in told[1], "a person has allowed all of their rights"
    assert not (place.outside / "poisoned").exists()
