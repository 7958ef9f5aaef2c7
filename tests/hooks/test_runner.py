"""Hooks in a sandbox: what keeps one from starting is no answer of its own."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from agentcli.hooks.runner import HookRun, HookRunner
from agentcli.sandbox.selection import choose_sandbox
from agentcli.system import processes
from agentcli.workspace.scope import AccessScope
from tests.sandbox.sandboxes import LAYERS


def run(runner: HookRunner, command: str, payload: bytes = b"") -> HookRun:
    return runner(command, payload, 30, lambda: None)


@pytest.fixture(params=LAYERS)
def contained(request, tmp_path):
    work = tmp_path / "work"
    for folder in (work, tmp_path / "tmp"):
        folder.mkdir()
    scope = AccessScope(work, tmp_path, (work,), mounts={Path("/tmp"): tmp_path / "tmp"})
    sandbox = choose_sandbox(request.param, scope, network=False, cache=tmp_path)
    return HookRunner(work, {"PATH": "/usr/bin:/bin"}, sandbox)


def test_what_goes_in_and_comes_out_is_as_without_one(contained):
    found = run(contained, "cat; echo to stderr >&2; exit 3", b"told")
    assert (found.exit_code, found.stdout, found.stderr) == (3, "told", "to stderr")
    assert run(contained, "echo a\n echo b").stdout == "a\nb"
    assert run(contained, "kill -9 $$").exit_code in (-9, 137)
    assert run(contained, "exit 2").exit_code == 2


@pytest.mark.parametrize("program", ["/bin/false", "/no/such/bwrap", "/bin/true"])
def test_a_sandbox_that_does_not_start_is_no_answer(contained, program):
    if contained.sandbox.layer != "bubblewrap":
        pytest.skip("it has no program")
    broken = replace(contained, sandbox=replace(contained.sandbox, program=program))
    found = run(broken, "exit 0")
    assert found.exit_code is None
    assert "could not be started" in found.fault


def test_a_sandbox_that_can_not_be_prepared_is_no_answer(contained, tmp_path):
    (tmp_path / "tmp").rename(tmp_path / "other")
    (tmp_path / "tmp").write_text("no folder for caches")
    for _ in range(2):
        found = run(contained, f"touch {tmp_path}/out; exit 0")
        assert found.exit_code is None
    assert not (tmp_path / "out").exists()


def test_what_is_shown_may_go_while_a_session_runs(contained, tmp_path):
    shown = tmp_path / "shown"
    shown.mkdir()
    scope = replace(contained.sandbox.scope, readable=(shown,))
    runner = HookRunner(
        contained.folder, contained.environment, replace(contained.sandbox, scope=scope)
    )
    assert run(runner, "exit 0").exit_code == 0
    shown.rmdir()
    assert run(runner, "exit 0").exit_code == 0


def test_one_that_can_not_be_watched_is_ended(contained, tmp_path, monkeypatch):
    def fails():
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("selectors.DefaultSelector", fails)
    runner = replace(contained, environment={**contained.environment, "OF": str(tmp_path)})
    found = run(runner, "sleep 1000")
    assert found.exit_code is None
    assert "could not be watched: [Errno 24] Too many open files" in found.fault
    assert not processes.await_end(processes.with_environment(f"OF={tmp_path}"), 20)


def test_a_folder_that_is_gone_is_no_answer(contained):
    contained.folder.rmdir()
    found = run(contained, "exit 0")
    assert found.exit_code is None
    assert "could not be started" in found.fault
