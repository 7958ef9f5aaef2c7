"""Ordinary work goes on inside: what the sandbox keeps from attackers it keeps from nobody else. So
it is with modes, of which none gives a program of the workspace the person's rights."""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from tests.attacks.raids import (
    ALONE,
    IDENTITY,
    LANDLOCK_ALONE,
    Arena,
    bash,
    every_layer,
    one_by_one,
)
from tests.conftest import LIMIT_S
from tests.sandbox.sandboxes import LAYERS, git
from tests.server import Call, ModelServer, Reply


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"needs {program}")


def works(place: Arena, *commands: str) -> list[str]:
    """What the commands say; each must succeed, unasked."""
    calls = [bash(f"{command} && echo WORKED") for command in commands]
    run = place.does(calls)
    assert [told for told in run.told if not told.rstrip().endswith("WORKED")] == []
    return run.told


@every_layer
def test_git(arena, layer):
    place = arena(layer)
    place.agent.env |= IDENTITY
    works(
        place,
        "echo new > file && git add file",
        "git commit -qm 'from inside'",
        "git switch -qc side-branch && git commit -q --allow-empty -m 'on a branch'",
        "git switch -q - && git merge -q side-branch",
        "git worktree add -q --detach tree && git -C tree log --oneline",
        "git worktree remove tree",
        "git stash list && git status --short && git gc -q && git fsck",
    )
    assert "from inside" in git(place.workspace, "log", "--format=%s")


@every_layer
def test_a_server_of_its_own_and_what_only_the_session_sees(arena, layer):
    place = arena(layer)
    (place.workspace / "test_server.py").write_text(
        "import http.server, threading, unittest, urllib.request\n"
        "class Serves(unittest.TestCase):\n"
        "    def test_it(self):\n"
        "        handler = http.server.SimpleHTTPRequestHandler\n"
        "        with http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler) as server:\n"
        "            threading.Thread(target=server.serve_forever, daemon=True).start()\n"
        "            url = f'http://127.0.0.1:{server.server_port}/first'\n"
        "            self.assertEqual(urllib.request.urlopen(url).read(), b'1\\n')\n"
        "            server.shutdown()\n"
    )
    name = f"mine-{os.urandom(6).hex()}"
    works(
        place,
        "python3 -m unittest -v test_server 2>&1",
        f"echo 1 > /tmp/{name} && (cd /tmp && mkdir inside && cat {name})",
        "mktemp | grep ^/tmp/ && touch made",
        "script -qc 'tty' /dev/null | grep /dev/pts && python3 -c 'import pty; pty.openpty()'",
        "python3 -c 'import multiprocessing.shared_memory as m;"
        " s = m.SharedMemory(create=True, size=9); s.unlink()'",
    )
    assert not Path(f"/tmp/{name}").exists()
    assert list(place.home.glob(f"state/sessions/*/tmp/{name}"))
    assert (place.workspace / "made").exists()


LEAK = """
#include <stdlib.h>
int main(void) { char *lost = malloc(10); lost[0] = 1; lost = 0; return 0; }
"""


@every_layer
@needs("gcc")
@needs("strace")
@needs("gdb")
def test_debuggers_and_sanitizers_work(arena, layer):
    place = arena(layer)
    (place.workspace / "leak.c").write_text(LEAK)
    told = works(
        place,
        "gcc -g -fsanitize=address leak.c -o leak && (! ./leak) 2>&1 | tee said",
        "grep LeakSanitizer said && gcc -g leak.c -o plain",
        "strace -f -e trace=execve ./plain 2>&1 && gdb -batch -ex run -ex quit ./plain 2>&1",
    )
    assert "detected memory leaks" in told[0]
    assert "exited normally" in told[2]


@pytest.mark.parametrize("layer", [*LAYERS, *(layer for layer, _ in ALONE)])
def test_what_fails_only_because_of_the_sandbox_is_told(arena, layer):
    place = arena(layer)
    beside = "git worktree add ../beside 2>&1"
    commands = {
        "git ls-remote https://name.invalid/x": "network: true",
        "git ls-remote https://name.invalid/x 2>&1 | tail -1": "network: true",
        beside: "new folders can be made only in the workspace",
        f"touch {place.outside}/x": "only in the workspace",
        "python3 -c 'import socket; socket.socket(socket.AF_NETLINK)'; ip addr": "ip, ss",
        "unshare -Ur true": "no namespaces",
    }
    if layer == LANDLOCK_ALONE:
        commands |= {
            "echo 1 > /tmp/x": "the workspace and $TMPDIR",
            "python3 -c 'import socket; socket.socket()'": "not even on 127.0.0.1",
            "script -qc true /dev/null": "terminals of their own",
        }
        outcome = place.run([Reply("", [bash("echo 1 > $TMPDIR/x")]), END])
        assert outcome.told == ["[exit 0, no output]"]
        assert "and $TMPDIR" in str(outcome.requests[0].body["messages"][0])
    run = place.run([Reply("", [bash(each) for each in commands]), END])
    for told, (command, word) in zip(run.told, commands.items(), strict=True):
        assert word in told, command


END = Reply("Done.")


@every_layer
def test_a_command_with_more_rights_can_not_be_traced(arena, layer):
    """A job of before tries to, while an approved command has the network."""
    place = arena(layer)
    (place.workspace / "trace.py").write_text(TRACER)
    (place.workspace / "rounds").write_text("0")
    wait = "n=$(cat rounds); until [ $(cat rounds) -gt $((n+2)) ]; do sleep 0.02; done"
    calls = [
        bash("python3 trace.py", background=True),
        bash(f"bash -c ': {MARK}; {wait}'", network=True, reason="x"),
    ]
    run = place.run([*one_by_one(calls), END], "--yolo")
    assert not (place.workspace / "traced").exists(), run.told
    assert (place.workspace / "seen").exists() is (layer == "landlock"), run.told


MARK = "marked-as-wider"
TRACER = f"""
import ctypes, os, pathlib
libc, seize, rounds, here = ctypes.CDLL(None), 0x4206, 0, pathlib.Path()
while True:
    rounds += 1
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            marked = "{MARK}" in pathlib.Path("/proc", name, "cmdline").read_text()
        except OSError:
            continue
        if marked:
            (here / "seen").touch()
            if libc.ptrace(seize, int(name), None, None) == 0:
                (here / "traced").touch()
    (here / "rounds-").write_text(str(rounds))
    os.rename("rounds-", "rounds")
"""


@every_layer
def test_where_the_root_may_be_written_tmp_is_still_the_session_s(arena, layer):
    place = arena(layer)
    name = f"mine-{os.urandom(6).hex()}"
    command = f"touch /tmp/{name} {place.outside}/made && echo WORKED"
    run = place.run([Reply("", [bash(command)]), END], "--add-dir", "/")
    assert run.told == ["WORKED"], run.stderr
    assert (place.outside / "made").exists()
    assert list(place.home.glob(f"state/sessions/*/tmp/{name}"))


@every_layer
@needs("npm")
def test_npm_init(arena, layer):
    place = arena(layer)
    works(place, "npm init -y >/dev/null", "npm pkg set scripts.test='echo tested' && npm test")
    assert (place.workspace / "package.json").exists()


@every_layer
@needs("cargo")
def test_cargo_build(arena, layer):
    place = arena(layer)
    # cargo is found by a home folder that is not the one of this test.
    home = Path.home()
    place.agent.env |= {"RUSTUP_HOME": f"{home}/.rustup", "CARGO_HOME": f"{home}/.cargo"}
    works(place, "cargo init -q --vcs none --name sample .", "cargo build -q --offline")
    assert (place.workspace / "target/debug/sample").exists()


@every_layer
@needs("uv")
def test_uv(arena, layer):
    works(arena(layer), "uv venv --offline -q env", "env/bin/python -c 'print(1)'")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """Where pip finds a package of ours, and nothing else."""
    folder = tmp_path / "simple" / "sample"
    folder.mkdir(parents=True)
    info = "sample-1.0.dist-info"
    with zipfile.ZipFile(folder / "sample-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("sample.py", "print('installed')\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: sample\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/simple/"
        server.shutdown()


@pytest.mark.cases(1)
@every_layer
def test_a_package_is_installed_once_the_network_was_approved(arena, index, layer):
    """First without: the model reads what to ask for. Then a person says yes."""
    place = arena(layer)
    venv = f"{sys.executable} -m venv env"
    subprocess.run(venv.split(), cwd=place.workspace, check=True)
    install = f"env/bin/pip install -q --retries 0 --index-url {index} sample"
    wanted = {"command": install, "network": True, "reason": "it needs the package sample"}
    script = [
        Reply("", [bash(install)]),
        Reply("", [Call("bash", wanted)]),
        Reply("", [bash("env/bin/python -c 'import sample'")]),
        Reply("Done."),
    ]
    with ModelServer(script) as server:
        place.agent.use(server)
        command = [*place.agent.command, "run", "x", "--set", f"sandbox.layer={layer}"]
        child = pexpect.spawn(
            command[0],
            command[1:],
            cwd=str(place.workspace),
            env={**place.agent.environment, "TERM": "dumb", "COLUMNS": "100"},
            dimensions=(50, 100),
            timeout=LIMIT_S,
            encoding="utf-8",
        )
        asked = 0
        while child.expect(["> $", pexpect.EOF]) == 0:
            asked += 1
            child.sendline("y")
        child.close()
        told = [m["content"] for m in server.requests[-1].body["messages"] if m["role"] == "tool"]
    assert "network: true" in told[0] or "ERROR" in told[0]
    assert told[2] == "installed"
    assert asked >= 1
    assert os.path.isdir(place.workspace / "env")  # noqa: PTH112


DAILY = """
cp /bin/sh tool && chmod +x tool && chmod 755 tool && install -m 755 tool installed
mkdir -p a/b && echo x > a/b/f && cp -a a copied && tar cf a.tar a && mkdir t && tar xpf a.tar -C t
python3 -c "import shutil; shutil.copytree('a', 'tree')" && chmod -R u+rwX,go-w a && chmod 1777 t
git clone -q . cloned && git -C cloned log --oneline && python3 -m venv --without-pip env
""".strip().splitlines()
ARCHIVE = """
import io, tarfile
with tarfile.open("set-id.tar", "w") as archive:
    for name, mode in (("plain", 0o644), ("program", 0o4755), ("last", 0o644)):
        member = tarfile.TarInfo(name)
        member.mode, member.size = mode, 1
        archive.addfile(member, io.BytesIO(b"x"))
"""


def told(place: Arena, *commands: str) -> list[str]:
    calls = [bash(f"{command} && echo WORKED") for command in commands]
    run = place.does(calls)
    return [*run.told, run.stderr]


@every_layer
def test_daily_work_with_modes_and_an_archive_that_has_such_a_mode(arena, layer):
    place = arena(layer)
    (place.workspace / "make.py").write_text(ARCHIVE)
    unpack = "python3 make.py && mkdir out && tar xf set-id.tar -C out"
    *daily, unpacked, changed, _ = told(place, *DAILY, unpack, "chmod u+s tool")
    assert [text for text in daily if "WORKED" not in text] == []
    out = place.workspace / "out"
    assert sorted(path.name for path in out.iterdir()) == ["last", "plain", "program"]
    for text in (unpacked, changed):
        assert "Operation not permitted" in text
        assert "set-user-ID or set-group-ID bit" in text
    assert (place.workspace / "tool").stat().st_mode & 0o7777 == 0o755


@every_layer
def test_where_folders_hand_down_their_group_it_is_cleared_at_the_end_and_told(arena, layer):
    """Programs set the bit of folders again there, and no filter tells a folder from a file."""
    place = arena(layer)
    place.workspace.chmod(0o2775)
    shared = "mkdir made && chmod 755 made && chmod -R g+w made && cp -a made again"
    attack = "cp /bin/sh made/tool && chmod 2755 made/tool"
    *daily, worked, refused, stderr = told(place, *DAILY, shared, attack, "chmod u+s made/tool")
    assert [text for text in (*daily, worked) if "WORKED" not in text] == []
    assert "Operation not permitted" in refused
    assert place.workspace.joinpath("made/tool").stat().st_mode & 0o7777 == 0o755
    assert place.workspace.joinpath("made").stat().st_mode & 0o2000
    assert "made/tool: its set-ID bits were cleared" in stderr
