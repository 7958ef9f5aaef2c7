"""What a sandbox lets through and what it stops, tried on the layers that this machine has."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentcli.errors import ConfigError
from agentcli.sandbox import bubblewrap, landlock
from agentcli.sandbox import bubblewrap as sandbox_bubblewrap
from agentcli.sandbox.probes import expected, probe, surprises
from agentcli.sandbox.selection import Sandbox, choose_sandbox
from agentcli.shell.python import PythonInterpreter
from agentcli.system import processes
from agentcli.workspace.private import OutputFolder
from agentcli.workspace.scope import AccessScope
from tests.sandbox.sandboxes import GIT, LAYERS, Place, git, make_place, make_repository
from tests.shell.shells import sound, until

NOBODY = 65534
_IS_NEW = "import sys; print('OK' if sys.version_info >= (3, 11) else '')"
has_bubblewrap = pytest.mark.skipif("bubblewrap" not in LAYERS, reason="needs bubblewrap")
needs_layers = pytest.mark.skipif(not LAYERS, reason="no layer works here")
every_layer = pytest.mark.parametrize("layer", LAYERS)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Callable[..., Place]]:
    made: list[Place] = []

    def make(layer: str, **options: object) -> Place:
        made.append(make_place(tmp_path, layer, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for one in made:
        one.shell.close()


@pytest.fixture
def everyones() -> Iterator[Path]:
    """Those of pytest are for one user."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


# The list of attempts


ALONE = [("landlock", False)] if "landlock" in LAYERS else []
"""Where no namespaces can be had."""


@pytest.mark.parametrize(
    ("layer", "namespaces"), [*((layer, True) for layer in [*LAYERS, "none"]), *ALONE]
)
def test_each_layer_lets_through_what_it_should_and_nothing_else(tmp_path, layer, namespaces):
    sandbox = make_place(tmp_path, layer, namespaces=namespaces).sandbox
    assert surprises(probe(sandbox, tmp_path), sandbox) == []


@every_layer
def test_the_same_holds_in_a_folder_that_commands_see_empty(tmp_path, layer):
    """As where the agent's home is below /var/tmp."""
    sandbox = make_place(tmp_path, layer).sandbox
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        assert surprises(probe(sandbox, Path(folder)), sandbox) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be someone else")
@pytest.mark.parametrize("layer", LAYERS)
def test_the_same_holds_for_a_user_without_rights(everyones, layer):
    python = shutil.which("python3", path="/usr/local/bin:/usr/bin")
    if python is None or b"OK" not in subprocess.check_output([python, "-c", _IS_NEW]):
        pytest.skip("needs a Python that everyone can run")
    os.chown(everyones, NOBODY, NOBODY)
    folder = everyones
    ours = Path(__file__).parents[2] / "agentcli"
    shutil.copytree(ours, folder / "agentcli", ignore=shutil.ignore_patterns("__pycache__"))
    program = (
        "import json; from pathlib import Path\n"
        "from agentcli.workspace.scope import AccessScope\n"
        "from agentcli.sandbox.selection import Sandbox, choose_sandbox\n"
        "from agentcli.sandbox.probes import probe, surprises\n"
        f"here = Path({str(folder)!r}); layer = {layer!r}\n"
        "borders = AccessScope(here, here, (here,), mounts={Path('/tmp'): here})\n"
        "sandbox = choose_sandbox(layer, borders, network=False, cache=here)\n"
        "found = probe(sandbox, here)\n"
        "print(json.dumps([found, surprises(found, sandbox)]))"
    )
    done = subprocess.run(
        [python, "-B", "-c", program],
        cwd=folder,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found, wrong = json.loads(done.stdout)
    assert wrong == []
    assert found["git commit"]


def test_a_surprise_is_told_in_words():
    sandbox = Sandbox("bubblewrap", AccessScope(Path(), Path(), ()))
    found = {**expected("bubblewrap"), "tcp": True, "git commit": False}
    assert surprises(found, sandbox) == ["cannot git commit", "can use tcp"]


# Choosing


def test_a_named_layer_that_does_not_work_is_an_error_that_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="bwrap is not installed") as raised:
        make_place(tmp_path, "bubblewrap")
    assert "install it" in raised.value.hint
    assert raised.value.exit_code == 3


def test_auto_goes_down_the_layers_and_says_why(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    if "landlock" in LAYERS:
        weaker = make_place(tmp_path, "auto").sandbox
        assert weaker.layer == "landlock"
        assert any("bwrap is not installed" in note for note in weaker.notes)
    monkeypatch.setattr(landlock, "landlock_version", lambda: 0)
    none = make_place(tmp_path, "auto").sandbox
    assert (none.layer, none.contains) == ("none", False)
    assert any("no Landlock" in note for note in none.notes)


@pytest.mark.skipif(not Path("/proc/sys/kernel/random/boot_id").exists(), reason="needs Linux")
def test_a_layer_that_worked_is_not_tried_again(tmp_path, monkeypatch):
    tries = tmp_path / "tries"
    fake = tmp_path / "bin/bwrap"
    fake.parent.mkdir()
    said = tmp_path / "said"
    fake.write_text(f"#!/bin/sh\necho x >>{tries}\ncat {said} >&2; test ! -e {said}")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    said.write_text("no namespaces for you\n")
    with pytest.raises(ConfigError, match="no namespaces for you"):
        make_place(tmp_path, "bubblewrap")
    said.unlink()
    for _ in range(3):
        make_place(tmp_path, "bubblewrap")
    assert tries.read_text().count("x") == 4
    os.utime(fake, (1, 1))
    make_place(tmp_path, "bubblewrap")
    assert tries.read_text().count("x") == 5


# Files


@has_bubblewrap
def test_nothing_is_left_on_disk_where_something_was_covered(place, tmp_path):
    repository = make_repository(tmp_path / "repository")
    (tmp_path / "home/.ssh").mkdir(parents=True)

    def on_disk() -> set[Path]:
        return {*repository.rglob("*"), *(tmp_path / "home").rglob("*")}

    before = on_disk()
    here = place("bubblewrap", workspace=repository)
    assert here.said("cat .git/config >/dev/null && echo ok") == "ok"
    here.shell.close()
    # An empty folder, as git itself makes it: only what is there can be protected.
    assert on_disk() - before == {repository / ".git/hooks"}
    assert list((repository / ".git/hooks").iterdir()) == []


@has_bubblewrap
def test_git_works_but_can_be_given_no_programs_to_run(place, tmp_path):
    repository = make_repository(tmp_path / "repository")
    here = place("bubblewrap", workspace=repository)
    here.run(f"echo 2 >second; {GIT} add -A; {GIT} commit -qm second; {GIT} switch -qc other")
    assert git(repository, "log", "--format=%s", "other").split() == ["second", "first"]
    for attempt in (
        "echo x >.git/hooks/pre-commit",
        "git config core.fsmonitor /bin/false",
        "mv .git moved",
        "mv .git/hooks .git/old",
        "rm -rf .git/hooks",
        "ln -sf /dev/null .git/config",
    ):
        assert here.run(attempt).exit_code != 0, attempt
    assert "fsmonitor" not in (repository / ".git/config").read_text()


@has_bubblewrap
def test_a_worktree_is_at_home_in_the_repository_it_belongs_to(place, tmp_path):
    main = make_repository(tmp_path / "main")
    tree = tmp_path / "tree"
    git(main, "worktree", "add", "-q", str(tree), "-b", "side")
    here = place("bubblewrap", workspace=tree)
    here.run(f"echo 2 >second; {GIT} add -A; {GIT} commit -qm second")
    assert git(main, "log", "--format=%s", "side").split() == ["second", "first"]
    data = main / ".git/worktrees/tree"
    for protected in (tree / ".git", data / "commondir", data / "gitdir", main / ".git/config"):
        assert here.run(f"echo x >>{protected}").exit_code != 0, protected
    assert here.run(f"echo x >{main}/.git/hooks/x").exit_code != 0
    here.run(f"echo x >{main}/other")
    assert not (main / "other").exists()


@has_bubblewrap
def test_a_git_file_of_a_stranger_opens_no_other_repository(place, tmp_path):
    private = make_repository(tmp_path / "private")
    hostile = tmp_path / "work"
    (hostile / "data").mkdir(parents=True)
    (hostile / ".git").write_text(f"gitdir: {hostile}/data\n")
    (hostile / "data/gitdir").write_text(f"{hostile}/.git\n")
    (hostile / "data/commondir").write_text(f"{private}/.git\n")
    here = place("bubblewrap")
    assert here.scope.writable == (hostile,)
    assert here.run(f"echo x >>{private}/.git/config").exit_code != 0


@has_bubblewrap
def test_home_as_workspace_keeps_its_secrets_and_our_settings(place, tmp_path):
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh/id").write_text("private")
    (home / ".netrc").write_text("private")
    make_repository(home)
    here = place("bubblewrap", workspace=home)
    assert here.said("cat .ssh/id .netrc 2>&1 | grep -c private") == "0"
    assert here.said("touch .ssh/new && echo made") != "made"
    assert here.said("echo x >file && cat file") == "x"
    assert here.said("cat ~/.netrc && echo empty") == "empty"


@has_bubblewrap
def test_settings_that_do_not_exist_yet_cannot_be_planted(tmp_path):
    from agentcli.sandbox.scope_finder import find_access_scope

    home = tmp_path / "home"
    own = home / ".config/agent"
    home.mkdir()
    (tmp_path / "tmp").mkdir()
    environ = {**os.environ, "HOME": str(home)}
    scope = find_access_scope(home, environ, agent_files=[own], tmp=tmp_path / "tmp")
    sandbox = choose_sandbox("bubblewrap", scope, network=False, cache=tmp_path)
    options = sandbox.spawn_options(str(home))
    plant = f"mkdir -p {own}; echo x >{own}/config.toml"
    done = subprocess.run(
        [*options.prefix, "sh", "-c", plant], preexec_fn=options.preexec, close_fds=False
    )
    assert done.returncode != 0
    assert not (own / "config.toml").exists()


@has_bubblewrap
def test_tmp_is_a_folder_of_the_session(place, tmp_path):
    here = place("bubblewrap")
    (tmp_path / "real").write_text("x")
    here.run("mktemp -d >/tmp/name; cd /tmp; pwd")
    session_tmp = here.scope.mounts[Path("/tmp")]
    assert (session_tmp / "name").read_text().startswith("/tmp/")
    assert not Path("/tmp/name").exists()
    here.shell.restart()
    assert here.said("pwd; cat name | head -c 5") == "/tmp\n/tmp/"


@needs_layers
@every_layer
def test_the_next_command_is_not_written_through_a_link(place, layer, tmp_path):
    """The script of a command lies in a folder that the commands before can write to."""
    here = place(layer)
    victim = tmp_path / "victim"
    victim.write_text("as it was")
    here.run("true")
    (folder,) = (here.scope.agent_files[0] / "session/shell").glob("bash-*")
    assert here.run(f"ln -sf {victim} {folder}/script").exit_code == 0
    assert here.said("echo alive") == "alive"
    assert victim.read_text() == "as it was"


@needs_layers
@every_layer
def test_a_job_cannot_put_its_log_elsewhere(place, layer, tmp_path):
    here = place(layer)
    here.run("true")
    started = here.shell.run_in_background("echo hello; sleep 1000")
    until(lambda: here.shell.job_status("job-1").output == "hello\n")
    outputs = Path(started.full_output_path).parent
    assert here.run(f"rm {started.full_output_path}").exit_code != 0
    assert here.run(f"echo x >{outputs}/new").exit_code != 0
    assert here.said(f"cat {started.full_output_path}") == "hello"
    assert here.shell.stop_job("job-1").exit_code == 143


# Processes


@needs_layers
@every_layer
def test_the_shell_is_the_same_inside(place, layer):
    here = place(layer)
    sound(here.shell)
    assert here.run("sleep 1000", timeout=0.2).exit_code == 130
    assert here.run("read x </dev/tty; echo got $x").waiting_for_input
    assert here.shell.send_input("it").output == "got it\n"
    assert here.run("exit 3").exit_code == 3
    sound(here.shell)


@has_bubblewrap
def test_nothing_survives_the_agent(tmp_path):
    program = (
        "import sys, time; from pathlib import Path\n"
        "from tests.sandbox.sandboxes import make_place\n"
        "here = make_place(Path(sys.argv[1]), 'bubblewrap')\n"
        "here.shell.run('setsid sleep 1000 & nohup sleep 1000 & (sleep 1000 &)')\n"
        "here.shell.run_in_background('sleep 1000')\n"
        "print(here.shell.identity, flush=True); time.sleep(1000)"
    )
    root = Path(__file__).parents[2]
    agent = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=root
    )
    assert agent.stdout is not None
    entry = f"{processes.ENVIRONMENT_MARK}={agent.stdout.readline().strip()}"
    until(lambda: len(processes.with_environment(entry)) >= 5)
    agent.send_signal(signal.SIGKILL)
    agent.wait()
    agent.stdout.close()
    until(lambda: not processes.with_environment(entry))


@needs_layers
@every_layer
def test_limits_and_rights(place, layer):
    here = place(layer)
    assert here.said("ulimit -Hc") == "0"
    assert int(here.said("ulimit -Hf")) < 1 << 30
    assert int(here.said("ulimit -Hu")) >= 4096
    assert "NoNewPrivs:\t1" in here.said("cat /proc/self/status")
    assert "Seccomp:\t2" in here.said("cat /proc/self/status")
    if layer == "bubblewrap":
        assert f"CapEff:\t{'0' * 16}" in here.said("cat /proc/self/status")


# Ordinary work


@has_bubblewrap
def test_a_virtual_environment_and_tests_with_a_server(place):
    here = place("bubblewrap")
    (here.workspace / "test_server.py").write_text(
        "import http.server, threading, unittest, urllib.request\n"
        "class Case(unittest.TestCase):\n"
        "    def test(self):\n"
        "        handler = http.server.SimpleHTTPRequestHandler\n"
        "        s = http.server.HTTPServer(('127.0.0.1', 0), handler)\n"
        "        threading.Thread(target=s.serve_forever, daemon=True).start()\n"
        "        url = f'http://127.0.0.1:{s.server_port}/'\n"
        "        self.assertIn(b'test_server', urllib.request.urlopen(url).read())\n"
    )
    python = sys.executable
    assert here.run(f"{python} -m venv --without-pip env", timeout=60).exit_code == 0
    done = here.run("env/bin/python -m unittest test_server", timeout=60)
    assert done.exit_code == 0, done.output


@has_bubblewrap
@pytest.mark.parametrize(
    ("program", "command"),
    [
        ("npm", "npm init -y && npm pack"),
        ("cargo", "cargo new --vcs none x && cd x && cargo build --offline"),
    ],
)
def test_packages_are_made_with_caches_of_the_session(place, program, command):
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}")
    homes = {"CARGO_HOME": f"{Path.home()}/.cargo", "RUSTUP_HOME": f"{Path.home()}/.rustup"}
    here = place("bubblewrap", environ=homes)
    done = here.run(command, timeout=120)
    assert done.exit_code == 0, done.output


# More than the sandbox gives


@needs_layers
@every_layer
def test_one_command_with_network(place, layer):
    here = place(layer)
    with socket.create_server(("127.0.0.1", 0)) as server:
        connect = f"exec 9<>/dev/tcp/127.0.0.1/{server.getsockname()[1]}"
        here.run("mkdir -p sub; export KEPT=1; inner() { echo inside; }")
        assert here.run(f"({connect})").exit_code != 0
        wider = here.sandbox.wider(network=True, unsandboxed=False)
        result = here.shell.run_wider(f"{connect}; cd sub; export NEW=$KEPT; (exit 7)", wider)
    assert result.exit_code == 7, result.output
    assert here.said("echo ${PWD##*/} $NEW; inner") == "sub 1\ninside"
    assert here.run(f"({connect})").exit_code != 0
    assert here.shell.run_wider("touch ~/x", wider).exit_code != 0
    assert not (here.home / "x").exists()


@needs_layers
@every_layer
def test_one_command_with_all_rights(place, layer):
    here = place(layer)
    here.run(
        "export CI=1 PLAIN=1 GIT_SSH_COMMAND=evil ODD=$PWD/evil.so PATH=$PWD:$PATH; unset TERM"
    )
    out = here.sandbox.wider(network=False, unsandboxed=True)
    result = here.shell.run_wider(
        "touch ~/made; echo $CI ${PLAIN-none} ${GIT_SSH_COMMAND-none} ${ODD-none};"
        " grep NoNew /proc/self/status; command -v bash; export LATER=2",
        out,
    )
    assert (here.home / "made").exists()
    lines = result.output.splitlines()
    assert lines[0] == "1 none none none"
    assert lines[1].split() == ["NoNewPrivs:", "0"]
    assert str(here.workspace) not in lines[2]
    assert any("GIT_SSH_COMMAND, ODD, PATH, PLAIN" in note for note in result.notes)
    assert here.said("echo $LATER $GIT_SSH_COMMAND ${PATH%%:*}") == f"2 evil {here.workspace}"
    assert here.run("touch ~/other").exit_code != 0


@has_bubblewrap
def test_outside_tmp_is_another_folder_and_that_is_said(place):
    here = place("bubblewrap")
    here.run("cd /tmp; echo 1 >mine")
    out = here.sandbox.wider(network=False, unsandboxed=True)
    result = here.shell.run_wider("cat mine; cat /tmp/mine", out)
    assert result.output.startswith("1\n")
    assert any("/tmp is another folder" in note for note in result.notes)
    assert here.said("pwd") == "/tmp"


@needs_layers
def test_a_command_apart_that_waits_is_stopped_and_the_shell_lives(place):
    here = place(LAYERS[0])
    here.run("x=kept")
    out = here.sandbox.wider(network=False, unsandboxed=True)
    result = here.shell.run_wider("read x </dev/tty", out)
    assert result.exit_code == 130
    assert any("waited for input" in note for note in result.notes)
    assert here.shell.run_wider("sleep 1000", out, timeout=0.2).timed_out
    assert here.shell.run_wider("exit 4", out).exit_code == 4
    assert here.said("echo $x") == "kept"


@has_bubblewrap
def test_a_place_that_goes_while_it_is_to_be_covered_costs_one_more_try(place, monkeypatch):
    here = place("bubblewrap")
    real, gone = bubblewrap.listening_places, Path("/nowhere/at/all")
    told = [[gone], [], [gone], [], [gone], []]
    monkeypatch.setattr(
        sandbox_bubblewrap, "listening_places", lambda *given: [*told.pop(0), *real(*given)]
    )
    monkeypatch.setattr(Path, "is_dir", lambda path, real=Path.is_dir: path == gone or real(path))
    here.shell.start()
    until(lambda: not here.shell._process.alive)
    assert here.shell.run("echo ahead").notes == ()
    sound(here.shell)
    wider = here.sandbox.wider(network=True, unsandboxed=False)
    assert here.shell.run_wider("echo hello", wider).output == "hello\n"
    python = PythonInterpreter(
        cwd=str(here.workspace),
        env={"PATH": os.environ["PATH"]},
        scratch=here.base / "state/session/python",
        outputs=OutputFolder(here.base / "state/session/outputs"),
        sandbox=here.sandbox,
    )
    assert python.run("1 + 1").output == "2\n"
    python.close()
    assert told == []
