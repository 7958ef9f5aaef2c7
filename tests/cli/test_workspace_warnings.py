"""Where a session works: said before anything runs, and in home and `/` only what is named can be
changed."""

from __future__ import annotations

import json
from pathlib import Path

import pexpect
import pytest

from tests.sandbox.sandboxes import LAYERS
from tests.server import Call, Reply

needs_bubblewrap = pytest.mark.skipif("bubblewrap" not in LAYERS, reason="needs bubblewrap")


def bash(command: str) -> Reply:
    return Reply("", [Call("bash", {"command": command})])


def outputs(agent) -> list[str]:
    """What the commands of the newest session printed."""
    events = sorted((agent.sessions[-1] / "events").glob("*.json"))
    found = [json.loads(path.read_text()) for path in events]
    return [each["content"] for each in found if each.get("observation") == "run"]


@pytest.mark.parametrize(("place", "called"), [("/", "root of the file system"), (None, "home")])
def test_home_and_root_need_folders_before_anything_starts(agent, serve, place, called):
    server = serve([])
    agent.use(server)
    folder = place or str(agent.home)
    done = agent("run", "-C", folder, "tidy up")
    assert done.returncode == 3
    assert called in done.stderr
    assert "--add-dir DIR" in done.stderr
    assert f"--add-dir {folder} for all of it" in done.stderr
    assert server.requests == []
    assert agent.sessions == []


@pytest.mark.parametrize("place", ["/", None])
def test_only_what_was_named_can_be_changed_there(agent, serve, place):
    named = agent.home / "named" if place is None else agent.workspace
    named.mkdir(exist_ok=True)
    folder = place or str(agent.home)
    marks = [named / "mark", agent.home / "mark"]
    tries = "; ".join(f"touch '{mark}'" for mark in marks)
    writes = Reply("", [Call("write", {"path": str(agent.home / "mark"), "content": "x"})])
    agent.use(serve([bash(f"pwd; {tries}"), writes, Reply("Done.")]))
    done = agent("run", "-C", folder, "--add-dir", str(named), "x")
    assert f"only what you named can be changed: {named}" in done.stderr
    assert outputs(agent)[0].split("\n")[0] == folder
    assert [mark.exists() for mark in marks] == [True, False]


@needs_bubblewrap
def test_all_of_the_root_works_where_it_is_named(agent, serve):
    """As in a container whose work lies there: what sets the machine stays out of reach."""
    machine = "for f in /proc/sys/kernel/hostname /sys/kernel/mm/ksm/run /run/x; do"
    command = "[ -w /opt ] && [ -w / ] && echo hello > /dev/null && echo works; "
    command += f'{machine} (echo 1 > "$f") 2>/dev/null && echo "changed $f"; done; ls /run | wc -l'
    write = Reply("", [Call("write", {"path": "/proc/sys/kernel/hostname", "content": "x"})])
    agent.use(serve([bash(command), write, Reply("Done.")]))
    done = agent("run", "-C", "/", "--add-dir", "/", "x")
    assert "all of it can be changed, as you named it" in done.stderr
    said = outputs(agent)[0]
    assert "works" in said
    assert "changed /proc" not in said
    assert "changed /sys" not in said
    assert Path("/proc/sys/kernel/hostname").read_text() != "x"
    assert not Path("/run/x").exists()


def test_a_session_at_home_is_gone_on_with_as_it_was_begun(agent, serve):
    named = agent.home / "named"
    named.mkdir()
    script = [Reply("Hello."), bash(f"touch {named}/mark {agent.home}/mark"), Reply("Done.")]
    agent.use(serve(script, sessions=2))
    agent("run", "-C", str(agent.home), "--add-dir", str(named), "x")
    agent("resume", "--last", "-C", str(agent.home), "go on")
    assert (named / "mark").exists()
    assert not (agent.home / "mark").exists()


def test_what_plan_mode_could_read_names_no_folders(agent, serve):
    agent.use(serve([Reply("Hello.")]))
    done = agent("run", "-C", str(agent.home), "--approval", "plan", "x")
    assert "nothing in it is changed in plan mode" in done.stderr
    assert agent("resume", "--last", "-C", str(agent.home), "go on").returncode == 3


def test_at_a_terminal_it_is_asked_once(agent, serve):
    (agent.home / "my project").mkdir()
    marks = "touch 'my project/mark' mark; echo tried"
    agent.use(serve([bash(marks), bash("echo again"), Reply("Done.")]))
    child = agent.spawn("run", "x", rows=60, columns=300, cwd=agent.home)
    child.expect("is your home folder")
    child.expect("> ")
    child.sendline("nowhere")
    child.expect("there is no folder")
    child.expect("> ")
    child.sendline("'my project'")
    child.expect("home folder: only")
    child.expect(pexpect.EOF)
    child.close()
    assert (agent.home / "my project/mark").exists()
    assert not (agent.home / "mark").exists()


def test_a_folder_without_git_is_told_of_and_a_repository_is_not(agent, serve, repository):
    agent.use(serve([Reply("Hello."), Reply("Hello.")], sessions=2))
    said = "is not in a git repository"
    assert said not in agent("run", "x").stderr
    alone = agent.home / "alone"
    alone.mkdir()
    told = agent("run", "-C", str(alone), "x").stderr
    assert f"{alone} {said}; agent undo takes back" in told
