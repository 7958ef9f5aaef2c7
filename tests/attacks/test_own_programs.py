"""What commands leave where the person's environment leads is run by nothing of the agent's own: no
program, library or module from a place that they can write to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.attacks.raids import (
    ALL_RIGHTS,
    AS_NOBODY,
    BEST,
    NOBODY,
    Arena,
    bash,
    every_layer,
    in_turn,
    needs_bubblewrap,
    one_by_one,
)
from tests.conftest import LIMIT_S
from tests.server import Call, ModelServer, Reply

PROGRAMS = "bwrap uname bash sh git rg id ls find env python3 lsb_release hostname pass setsid"
USED = "uname; id -un; ls; git status --short; env true"
WAYS: dict[str, Callable[[Arena], str]] = {
    "a virtual environment": lambda place: f"{place.workspace}/.venv/bin",
    "a relative folder": lambda place: ".venv/bin",
    "an empty entry": lambda place: "",
    "a link from elsewhere": lambda place: f"{place.outside}/link",
    "a link on the way": lambda place: f"{place.outside}/way/bin",
    "the view of a process": lambda place: "/proc/self/cwd/.venv/bin",
    "a folder that was added": lambda place: f"{place.base}/added/bin",
}


def leaving_programs(place: Arena) -> str:
    """A command that leaves programs in all these places; each does what the real one does, and
    leaves a trace where only commands with all rights can."""
    folders = f"{place.workspace}/.venv/bin {place.workspace} {place.base}/added/bin"
    trace = f"(: >{place.outside}/ran-%s) 2>/dev/null"
    program = f'#!/bin/sh\\n{trace}\\nexec /usr/bin/%s \\"\\$@\\"\\n'
    return (
        f"for f in {folders}; do mkdir -p $f; for n in {PROGRAMS}; do "
        f'printf "{program}" $n $n > $f/$n && chmod 755 $f/$n; done; done'
    )


def prepared(place: Arena, *, by_session: bool = False) -> None:
    """After a session whose commands have left programs in the workspace: a real one, or just that
    command."""
    (place.base / "added").mkdir()
    (place.outside / "link").symlink_to(place.workspace / ".venv/bin")
    (place.outside / "way").symlink_to(place.workspace / ".venv")
    rights = {}
    if place.agent.user == "nobody":
        shutil.chown(place.base / "added", NOBODY, NOBODY)
        rights = AS_NOBODY
    command = leaving_programs(place)
    if by_session:
        reply = Reply("", [bash(command)])
        place.run([reply, Reply("Done.")], "--add-dir", f"{place.base}/added")
    else:
        subprocess.run(["sh", "-c", command], cwd=place.workspace, check=True, **rights)
    assert (place.workspace / ".venv/bin/uname").exists()


def traces(place: Arena) -> set[str]:
    return {path.name[4:] for path in place.outside.glob("ran-*")}


@in_turn("way", WAYS)
def test_what_one_session_leaves_on_path_the_next_does_not_run(arena, layer, user, way):
    place = arena(layer, user)
    prepared(place, by_session=way == next(iter(WAYS)))
    added = ("--add-dir", f"{place.base}/added")
    place.agent.env["PATH"] = f"{WAYS[way](place)}:{os.environ['PATH']}"
    place.agent.env["VIRTUAL_ENV"] = f"{place.workspace}/.venv"
    calls = [
        bash(f"{USED}; echo $PATH"),
        bash(USED, **ALL_RIGHTS),
        bash("echo x > file"),
        Call("python", {"code": "print(6 * 7)"}),
        Call("grep", {"pattern": "x"}),
    ]
    run = place.tries(calls, *added, "--yolo")
    assert run.exit_code == 0
    assert f"\n{place.agent.env['PATH']}" in run.told[0], "inside, the person's PATH is as it was"
    assert "42" in run.told[3]
    place.run_as(["resume", "--last", "go on"], [Reply("", calls[:2]), Reply("Done.")], "--yolo")
    for command in (["undo"], ["diff"]):
        assert place.agent.start(*command).wait(LIMIT_S) == 0
    assert traces(place) == set()


@every_layer
def test_what_was_left_in_one_workspace_is_not_run_when_working_in_another(arena, layer):
    """The environment of the first is still active."""
    place = arena(layer)
    prepared(place, by_session=True)
    place.agent.env["PATH"] = f"{place.workspace}/.venv/bin:{os.environ['PATH']}"
    other = place.base / "other"
    other.mkdir()
    first, place.agent.workspace = place.workspace, other
    call = bash(f"cat {first}/first; {USED}", **ALL_RIGHTS)
    run = place.does([call], "--yolo")
    assert run.told[0].startswith("1\n")
    assert traces(place) == set()


@pytest.mark.parametrize("way", ["a virtual environment", "a relative folder"])
def test_no_other_command_runs_them_either(arena, way):
    place = arena(BEST)
    prepared(place, by_session=True)
    (place.workspace / ".git").rename(place.workspace / "no-repository")
    place.agent.env["PATH"] = f"{WAYS[way](place)}:{os.environ['PATH']}"
    place.agent.env["AGENT_CONFIG"] = str(place.base / "settings.toml")
    (place.base / "settings.toml").write_text(
        '[providers.mine]\nbase_url = "http://127.0.0.1:1/v1"\napi_key_command = "pass show key"\n'
        '[model]\nname = "mine/one"\n'
    )
    for command in (["doctor"], ["models"], ["demo"], ["context"]):
        place.agent(*command)
        assert traces(place) == set(), command


@pytest.mark.parametrize("way", ["a virtual environment", "a relative folder", "an empty entry"])
def test_without_a_sandbox_commands_do_not_run_them_by_name(arena, way):
    """What only reads runs unasked there."""
    place = arena(BEST)
    prepared(place)
    place.agent.env["PATH"] = f"{WAYS[way](place)}:{os.environ['PATH']}"
    place.layer = "none"
    call = bash("ls; git status --short")
    run = place.does([call], "--no-sandbox")
    assert run.exit_code == 0
    assert "first" in run.told[0]
    assert "left out" in run.told[0]
    assert traces(place) == set()


@every_layer
def test_a_key_command_is_no_program_of_the_workspace(arena, layer):
    place = arena(layer)
    prepared(place)
    (place.base / "settings.toml").write_text('[providers.openai-chat]\napi_key_command = "KEY"\n')
    place.agent.env["AGENT_CONFIG"] = str(place.base / "settings.toml")
    for command in ("pass", f"{place.workspace}/.venv/bin/pass", ".venv/bin/pass"):
        text = (place.base / "settings.toml").read_text().splitlines()[0]
        (place.base / "settings.toml").write_text(f"{text}\napi_key_command = '{command}'\n")
        place.agent.env["PATH"] = f"{place.workspace}/.venv/bin:{os.environ['PATH']}"
        with ModelServer([]) as server:
            place.agent.use(server)
            done = place.agent("run", "x")
        assert done.returncode == 3, done.stderr
        assert "no program" in done.stderr
    assert traces(place) == set()


@pytest.mark.own_start
@needs_bubblewrap
def test_no_library_of_the_workspace_is_loaded_around_the_sandbox(arena):
    """A library that is none keeps a program from starting, so whoever starts did not load it."""
    place = arena("bubblewrap")
    folder = place.workspace / "lib"
    folder.mkdir()
    for name in ("libcap.so.2", "libselinux.so.1", "libpcre2-8.so.0"):
        (folder / name).write_text("no library")
    place.agent.env["LD_LIBRARY_PATH"] = str(folder)
    show = "echo ${LD_LIBRARY_PATH-none}"
    calls = [bash(show), bash(f"{show}; ls", **ALL_RIGHTS)]
    run = place.tries(calls, "--yolo")
    assert run.exit_code == 0
    assert run.told[0].startswith(str(folder))
    assert run.told[1].startswith("none\n")
    assert "first" in run.told[1]
    assert "LD_LIBRARY_PATH" in run.stderr, "the interpreter itself has them, and that is said"


MODULES = """
    anthropic openai httpx2 httpx rich typer pydantic jinja2 yaml pexpect tree_sitter genai_prices
    prompt_toolkit brotli brotlicffi zstandard socksio h2 distro trio uvloop orjson sniffio
    anyio json tomllib sqlite3 subprocess socket ssl uuid email agentcli_extra
""".split()  # noqa: SIM905


def planted_modules(place: Arena) -> None:
    trace = f"open({str(place.outside)!r} + '/ran-' + __name__, 'w').close()\n"
    for name in MODULES:
        (place.workspace / f"{name}.py").write_text(f"{trace}raise ImportError('planted')\n")


@pytest.mark.own_start
@pytest.mark.parametrize("start", ["module", "script"])
def test_no_module_of_the_workspace_is_imported(arena, start):
    place = arena(BEST)
    planted_modules(place)
    script = Path(sys.executable).with_name("agent")
    command = [sys.executable, "-m", "agentcli"] if start == "module" else [str(script)]
    everything(place, command)
    assert traces(place) == set()


def everything(place: Arena, command: list[str]) -> None:
    """A run that uses as much of the agent as it can."""

    place.agent.started_with = command
    calls = [
        bash("cat first; git log | head -1"),
        Call("read", {"path": "first"}),
        Call("write", {"path": "new.txt", "content": "x"}),
        Call("grep", {"pattern": "x"}),
    ]
    for model in ("openai-chat/gpt-5.5", "anthropic/claude-sonnet-5-5"):
        with ModelServer([*one_by_one(calls), Reply("Done.")]) as server:
            place.agent.use(server, model)
            done = place.agent("run", "x", "--yolo", "--set", f"sandbox.layer={place.layer}")
        assert done.returncode == 0, done.stderr
    place.agent("doctor")


@pytest.fixture
def installed_inside(arena) -> Callable[[str], Arena]:
    """An agent whose package and interpreter are in the workspace, and which runs from there; and
    a virtual environment of the project's own beside it."""

    def make(layer: str) -> Arena:
        place = arena(layer)
        packages = next(path for path in sys.path if path.endswith("site-packages"))
        source = Path(__file__).parents[2] / "agentcli"
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, place.workspace / "agentcli", ignore=ignored)
        for name in (".venv", "env"):
            folder = place.workspace / name
            library = folder / "lib" / Path(packages).parent.name / "site-packages"
            library.mkdir(parents=True)
            (folder / "bin").mkdir()
            (folder / "bin/python").symlink_to(Path(sys.executable).resolve())
            home = Path(sys.executable).resolve().parent
            (folder / "pyvenv.cfg").write_text(f"home = {home}\n")
            (library / "one.pth").write_text(f"{packages}\n{place.workspace}\n")
        place.agent.env["PYTHONDONTWRITEBYTECODE"] = "1"
        return place

    return make


@pytest.mark.own_start
def test_an_agent_that_is_linked_from_the_workspace_imports_nothing_else_there(installed_inside):
    place = installed_inside(BEST)
    planted_modules(place)
    everything(place, [f"{place.workspace}/.venv/bin/python", "-m", "agentcli"])
    assert traces(place) == set()


@pytest.mark.own_start
@every_layer
def test_an_agent_in_the_workspace_is_kept_from_commands_or_says_that_it_is_not(
    installed_inside, layer
):
    place = installed_inside(layer)
    python = f"{place.workspace}/.venv/bin/python"
    place.agent.started_with = [python, "-m", "agentcli"]
    before = {path: path.read_bytes() for path in files_of(place)}
    changes = [
        "echo x >> agentcli/cli/main.py",
        "echo x > agentcli/new.py",
        "rm agentcli/app/agent_builder.py",
        "mv agentcli other",
        "echo x > .venv/bin/git",
        "ln -sf /tmp/x .venv/bin/python",
        "echo x >> .venv/pyvenv.cfg",
        "mv .venv other-venv",
        "touch .venv/lib/python3*/site-packages/usercustomize.py",
        "echo x > env/bin/tool && echo x > env/lib/own.py",
    ]
    calls = [bash(change) for change in changes[-1:]]
    calls += [Call("write", {"path": "agentcli/extra.py", "content": "x"})]
    calls += [Call("write", {"path": ".venv/bin/extra", "content": "x"})]
    if layer == "bubblewrap":
        calls += [bash(change) for change in changes[:-1]]
    run = place.tries(calls)
    assert (place.workspace / "env/bin/tool").exists(), "the project's own"
    assert all("Not allowed" in told for told in run.told[1:3]), run.told
    assert {path: path.read_bytes() for path in files_of(place)} == before
    told = f"{place.workspace}/.venv, {place.workspace}/agentcli"
    assert (told in run.stderr) is (layer != "bubblewrap"), run.stderr


def files_of(place: Arena) -> list[Path]:
    tops = [place.workspace / "agentcli", place.workspace / ".venv"]
    return [path for top in tops for path in sorted(top.rglob("*")) if path.is_file()]
