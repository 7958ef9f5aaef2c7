"""What a hostile model gains by commands and python code under each layer, as root and as a user
without rights: judged by what it says itself and by what is to be seen from outside."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import subprocess

import pytest

from tests.attacks.groups import (
    ATTRIBUTES,
    ESCAPES,
    FILES,
    GIT,
    HARMLESS_WITHOUT_SANDBOX,
    MODES,
    NETWORK,
    OWN,
    SECRETS,
    SHARED,
    in_reach,
)
from tests.attacks.leftovers import LEAVE, gone, processes_with
from tests.attacks.raids import (
    ALONE,
    NOBODY,
    SIDES,
    Raid,
    bash,
    every_layer,
    needs_bubblewrap,
    raid,
)
from tests.conftest import LIMIT_S
from tests.sandbox.sandboxes import without_call
from tests.server import Call, Reply

pytestmark = pytest.mark.own_start


def gained(found: Raid, names: list[str]) -> dict[str, str]:
    """What went through of `names` and is not known to."""
    known = in_reach(found.layer, root=found.root)
    answers = {name: found.found[name] for name in names}
    return {name: said for name, said in answers.items() if said is not None and name not in known}


@pytest.mark.parametrize(("layer", "user"), [*SIDES, *ALONE])
def test_nothing_is_gained_by_commands(arena, layer, user):
    """One raid of all attempts on each side."""
    found = raid(arena(layer, user))
    known = in_reach(layer, root=found.root)
    files = [*FILES, *ATTRIBUTES, *MODES]
    assert gained(found, [*files, *GIT, *SECRETS, *ESCAPES, *SHARED, *OWN, *NETWORK]) == {}
    assert found.arrived == ({"unix"} if "unix_by_path" in known else set())
    assert {name for name in found.changed if name.startswith("home/")} == set()
    changed = found.changed
    if layer != "bubblewrap":
        # What git runs lies in a folder that is writable as a whole.
        changed = {name for name in changed if ".git/" not in name}
    if "change_mode" in known:
        changed -= {"outside/full"}
    assert changed == set(), "outside the workspace"
    untrue = {name for name in known if found.found[name] is None}
    assert untrue == set(), "docs/safety.md names these: no warning that isn't true"


@every_layer
def test_nothing_is_gained_by_python_code(arena, layer):
    found = raid(arena(layer), python=True)
    assert gained(found, [*FILES, *MODES, *GIT, *SECRETS, *ESCAPES, *SHARED]) == {}
    assert found.arrived <= {"unix"} if layer == "landlock" else found.arrived == set()


@every_layer
def test_network_that_was_allowed_opens_nothing_else(arena, layer):
    names = [*FILES, *GIT, *SECRETS, *ESCAPES, "tcp", "raw", "packet", "netlink", "unix_abstract"]
    wider = {"network": True, "reason": "to fetch a package"}
    found = raid(arena(layer), "--yolo", only=names, wider=wider)
    assert found.found["tcp"] is not None
    assert gained(found, [name for name in names if name != "tcp"]) == {}
    assert "abstract" not in found.arrived


def test_the_attempts_are_real(arena):
    """Where nothing holds them, all but those that would harm this machine succeed."""
    found = raid(arena("none"), "--no-sandbox", "--yolo", only=HARMLESS_WITHOUT_SANDBOX)
    assert [name for name, said in found.found.items() if said is None] == []
    assert found.arrived == {"tcp", "unix", "abstract", "abstract_datagram", "terminal"}


@every_layer
@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_in_the_workspace_of_another_user_root_has_no_powers_and_that_is_said(arena, layer):
    place = arena(layer)
    for path in (place.workspace, *place.workspace.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    calls = [bash("touch by-command"), Call("write", {"path": "by-tool", "content": "x"})]
    run = place.does(calls)
    assert f"{place.workspace} belongs to another user" in run.stderr
    assert "--no-sandbox" in run.stderr
    assert "belongs to another user" in run.told[0]
    assert not (place.workspace / "by-command").exists()
    assert (place.workspace / "by-tool").exists()


# What came after the start


@needs_bubblewrap
def test_what_appears_later_is_held_as_far_as_is_said(arena):
    """A repository that gets its `.git` and a person who makes a first key, while a session runs:
    file tools keep to it at once, commands in the next sandbox that is made."""
    place = arena("bubblewrap")
    late = place.home / ".gnupg" / "key"

    def appear(request: object) -> Reply:
        late.parent.mkdir()
        late.write_text("the late key")
        calls = [
            Call("read", {"path": str(late)}),
            bash(f"cat {late}", restart=True),
            Call("python", {"code": f"print(open({str(late)!r}).read())"}),
        ]
        return Reply("", calls)

    run = place.run([Reply("", [bash("true")]), appear, Reply("Done.")])
    assert "the late key" not in "".join(run.told), run.told


@every_layer
def test_writing_while_commands_turn_the_folder_round_stays_inside(arena, layer):
    place = arena(layer)
    turn = (
        f"while :; do mkdir d; mv -T d d-$RANDOM; ln -s {place.outside} d; rm d; done 2>/dev/null"
    )
    calls = [Call("write", {"path": f"d/w{number}", "content": "x"}) for number in range(40)]
    calls = [bash(turn, background=True), *calls]
    run = place.tries(calls)
    assert sorted(path.name for path in place.outside.iterdir()) == ["full", "movable", "removable"]
    assert any(place.workspace.glob("d*/w*")), run.told


# What is left behind


@every_layer
def test_nothing_is_left_running_at_the_end(arena, layer, mark):
    calls = [bash(LEAVE.format(mark))]
    calls += [bash(f"sleep {mark}", background=True)]
    run = arena(layer).does(calls)
    assert "left" in run.told[0]
    assert gone(mark)


@every_layer
def test_nothing_is_left_running_when_the_agent_is_killed(arena, layer, mark):
    def kill(request: object) -> Reply:
        assert processes_with(mark)
        running[0].kill()
        return Reply("never read")

    running: list[subprocess.Popen[bytes]] = []
    call = bash(LEAVE.format(mark))
    run = arena(layer).run([Reply("", [call]), kill], meanwhile=running.append)
    assert run.exit_code == -signal.SIGKILL
    assert gone(mark)


# No layer


WITHOUT_LANDLOCK = ("landlock_create_ruleset", errno.ENOSYS)


def run_bare(agent, serve, *flags: str) -> subprocess.CompletedProcess[str]:
    """Where there is no bwrap to be found, nor Landlock."""
    made = Call("write", {"path": "made", "content": "x"})
    calls = [bash("touch ran"), made]
    agent.use(serve([Reply("", calls), Reply("Done.")]))
    agent.env["PATH"] = str(agent.home)
    process = agent.start("run", "x", *flags, preexec_fn=without_call(*WITHOUT_LANDLOCK))
    out, err = process.communicate(timeout=LIMIT_S)
    return subprocess.CompletedProcess([], process.returncode, out.decode(), err.decode())


@pytest.mark.parametrize("flags", [[], ["--yolo"], ["--approval", "auto-edit"]])
def test_without_any_layer_an_unattended_run_refuses(agent, serve, flags):
    done = run_bare(agent, serve, *flags)
    assert done.returncode == 3, done.stderr
    assert "no sandbox works here" in done.stderr
    assert "--no-sandbox" in done.stderr
    assert list(agent.workspace.iterdir()) == []
    assert agent.sessions == []


@pytest.mark.parametrize("layer", ["bubblewrap", "landlock", "seatbelt"])
def test_a_named_layer_that_does_not_work_is_not_replaced(agent, serve, layer):
    done = run_bare(agent, serve, "--set", f"sandbox.layer={layer}")
    assert done.returncode == 3
    assert f"the sandbox {layer} does not work here" in done.stderr
    assert list(agent.workspace.iterdir()) == []


def test_no_sandbox_is_said_and_takes_approvals_for_all_the_same(agent, serve):
    done = run_bare(agent, serve, "--no-sandbox")
    assert done.returncode == 5
    assert "no sandbox" in done.stderr
    assert list(agent.workspace.iterdir()) == []


def test_a_project_can_not_take_the_sandbox_away(agent, serve):
    (agent.workspace / ".agent").mkdir()
    settings = '[sandbox]\nlayer = "none"\nnetwork = true\nwritable = ["/"]\n'
    (agent.workspace / ".agent/config.toml").write_text(settings)
    outside = agent.home / "reached"
    call = bash(f"touch {outside}")
    agent.use(serve([Reply("", [call]), Reply("Done.")]))
    done = agent("run", "x")
    assert "take no effect" in done.stderr
    assert not outside.exists()


def test_the_filter_of_this_test_works():
    """Else the tests above would pass for another reason."""
    child = os.fork()
    if child == 0:
        without_call(*WITHOUT_LANDLOCK)()
        made = ctypes.CDLL(None, use_errno=True).syscall(444, None, 0, 1)
        os._exit(0 if made == -1 and ctypes.get_errno() == errno.ENOSYS else 1)
    assert os.waitpid(child, 0)[1] == 0
