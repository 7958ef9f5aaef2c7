"""The parts of the sandbox that can be judged without one: filter, profile, borders, hints."""

from __future__ import annotations

import errno
import os
import socket
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from agentcli.sandbox.hints import refused_by_sandbox
from agentcli.sandbox.scope_finder import find_access_scope
from agentcli.sandbox.seatbelt import seatbelt_profile
from agentcli.sandbox.selection import Sandbox
from agentcli.sandbox.system_calls import AF_INET, AF_INET6, AF_UNIX, _system_calls, seccomp_program
from agentcli.workspace.scope import AccessScope
from tests.sandbox import layer_table
from tests.sandbox.sandboxes import git, make_repository
from tests.tables import each_row

X86, ARM = ("x86_64", 0xC000003E), ("aarch64", 0xC00000B7)
ALLOWED, KILLED = 0x7FFF0000, 0x80000000


def verdict(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """Runs the filter as the kernel would: the part of classic BPF that it uses."""
    data = struct.pack("=IIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    position = accumulator = 0
    while True:
        code, if_true, if_false, operand = struct.unpack_from("=HBBI", program, 8 * position)
        position += 1
        if code == 0x06:
            return int(operand)
        if code == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, operand)
        elif code == 0x54:
            accumulator &= operand
        else:
            truth = {
                0x15: accumulator == operand,
                0x35: accumulator >= operand,
                0x45: bool(accumulator & operand),
            }[code]
            position += if_true if truth else if_false


@pytest.mark.parametrize(
    ("machine", "socket_number", "clone", "clone3", "ptrace", "openat"),
    [(X86, 41, 56, 435, 101, 257), (ARM, 198, 220, 435, 117, 56)],
)
def test_the_filter_of_system_calls(machine, socket_number, clone, clone3, ptrace, openat):
    name, architecture = machine
    program = seccomp_program({socket.AF_UNIX, socket.AF_INET}, shared=True, machine=name)

    def answer(number: int, *arguments: int) -> int:
        return verdict(program, architecture, number, *arguments)

    refused = 0x50000 | errno.EPERM
    assert answer(openat) == ALLOWED
    assert answer(socket_number, socket.AF_INET, socket.SOCK_STREAM | 0x80000) == ALLOWED
    assert answer(socket_number, socket.AF_INET, socket.SOCK_RAW | 0x80000) == refused
    assert answer(socket_number, 10, socket.SOCK_STREAM) == refused
    assert answer(socket_number, 16, socket.SOCK_DGRAM) == refused
    assert answer(clone, 0x11) == ALLOWED
    assert answer(clone, 0x10000011) == refused
    assert answer(clone3) == 0x50000 | errno.ENOSYS
    assert answer(ptrace) == ALLOWED
    assert verdict(program, 0x40000003, 5) == KILLED
    if machine is X86:
        assert answer(0x40000000 | 1) == KILLED
    every = seccomp_program({AF_UNIX, AF_INET, AF_INET6}, shared=True, machine=name)
    assert verdict(every, architecture, socket_number, 10, 1) == ALLOWED


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_refuses_modes_with_a_set_id_bit_and_no_others(machine):
    calls = _system_calls(machine)["mode"]
    architecture = {"x86_64": X86[1], "aarch64": ARM[1]}[machine]
    strict = seccomp_program({AF_UNIX}, shared=True, machine=machine)
    shared_group = seccomp_program({AF_UNIX}, shared=True, group_bit=True, machine=machine)
    refused, create, temporary = 0x50000 | errno.EPERM, 0o100, 0o20200000
    where = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "mknod": 1}
    where |= {"mknodat": 2, "open": 2, "openat": 3}
    flags = {"open": 1, "openat": 2}
    assert calls.keys() == (where.keys() if machine == "x86_64" else where.keys() - OLD_CALLS)
    for name in calls:

        def answer(mode: int, flag: int = create, program: bytes = strict, name=name) -> int:
            arguments = [0xFFFFFFFF] * 6
            arguments[where[name]] = mode
            arguments[flags.get(name, 5)] = flag
            return verdict(program, architecture, calls[name], *arguments)

        for mode in (0, 0o777, 0o100644, 0o1777):
            assert answer(mode) == ALLOWED, name
        for mode in (0o4000, 0o2000, 0o6777, 0o104755, 0xFFFFFFFF):
            assert answer(mode) == refused, name
        if name in flags:
            assert answer(0o4755, temporary) == refused
            assert answer(0xFFFFFFFF, 0o2) == ALLOWED, "without a new file it is no mode"
        changes = "chmod" in name
        assert (answer(0o2755, program=shared_group) == ALLOWED) is changes, name
        assert answer(0o6755, program=shared_group) == refused
    openat2 = _system_calls(machine)["absent"]["openat2"]
    assert verdict(strict, architecture, openat2) == 0x50000 | errno.ENOSYS


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_refuses_attributes_where_mounts_do_not(machine):
    calls, architecture = _system_calls(machine), {"x86_64": X86[1], "aarch64": ARM[1]}[machine]
    alone = seccomp_program({AF_UNIX}, shared=False, attributes=False, machine=machine)
    mounted = seccomp_program({AF_UNIX}, shared=True, machine=machine)
    for name, number in calls["attribute"].items():
        assert verdict(alone, architecture, number) == 0x50000 | errno.ENOTSUP, name
        assert verdict(mounted, architecture, number) == ALLOWED, name
    ioctl, refused = calls["checked"]["ioctl"], 0x50000 | errno.EPERM
    set_flags, subvolume, verity, project = 0x40086602, 0x5000940E, 0x40806685, 0x401C5820
    for request in (set_flags, subvolume, verity, project):
        assert verdict(alone, architecture, ioctl, 3, request) == refused
        assert verdict(mounted, architecture, ioctl, 3, request) == ALLOWED
    get_flags, clone, terminal_size = 0x80086601, 0x40049409, 0x5413
    for request in (get_flags, clone, terminal_size):
        assert verdict(alone, architecture, ioctl, 3, request) == ALLOWED
    for program in (alone, mounted):
        assert verdict(program, architecture, ioctl, 3, 0x5412) == refused
        denied = {"open_tree_attr": 467, "kcmp": 312 if machine == "x86_64" else 272}
        for name, number in denied.items():
            assert verdict(program, architecture, number) == refused, name
        assert verdict(program, architecture, calls["absent"]["vmsplice"]) == 0x50000 | errno.ENOSYS
    assert "modify_ldt" in calls["denied"] or machine == "aarch64"


def test_the_table_of_what_each_layer_holds_is_what_the_probe_expects():
    assert layer_table.written() == layer_table.made(), "python -m tests.sandbox.layer_table"


OLD_CALLS = {"chmod", "open", "creat", "mknod"}
"""That arm64 does not have."""


def scope(**changes: object) -> AccessScope:
    place = Path("/Users/a/work")
    plain = AccessScope(
        workspace=place,
        home=place.parent,
        writable=(place,),
        protected=(place / ".git/hooks",),
        hidden=(place.parent / ".ssh", Path("/Users/a/state")),
        readable=(Path("/Users/a/state/outputs"),),
        agent_files=(Path("/Users/a/state"),),
        mounts={Path("/tmp"): Path("/Users/a/state/tmp")},
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def test_the_profile_for_macos_denies_after_it_allows():
    profile = seatbelt_profile(scope(), network=False, folders=[Path('/x "y"')])
    order = [
        "(deny file-write*)",
        '(allow file-write*\n  (subpath "/Users/a/work"))',
        '(deny file-write*\n  (subpath "/Users/a/work/.git/hooks")\n  (subpath "/Users/a/state"))',
        '(deny file-write-unlink\n  (literal "/Users/a/work/.git"))',
        '(deny file-read* file-write*\n  (subpath "/Users/a/.ssh")\n  (subpath "/Users/a/state"))',
        '(allow file-read*\n  (subpath "/Users/a/state/outputs"))',
        '(subpath "/x \\"y\\"")',
        "(deny network*)",
    ]
    places = [profile.index(part) for part in order]
    assert places == sorted(places)
    assert profile.count("(") == profile.count(")")
    assert "network" not in seatbelt_profile(scope(), network=True)


def test_the_session_can_write_its_tmp_in_the_macos_profile():
    """It lies in the agent's state, which is hidden as a whole."""
    profile = seatbelt_profile(scope(), network=False)
    hidden = profile.index("(deny file-read* file-write*")
    assert profile.index('(subpath "/Users/a/state/tmp")', hidden) > hidden


# AccessScope


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "home").mkdir()
    return {"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}


def found(workspace: Path, environ: dict[str, str], **options: object) -> AccessScope:
    return find_access_scope(workspace, environ, tmp=Path("/nowhere"), **options)  # type: ignore[arg-type]


def test_the_repository_is_writable_and_its_controls_are_not(tmp_path, environ):
    repository = make_repository(tmp_path / "repository")
    (repository / "sub").mkdir()
    result = found(repository / "sub", environ)
    assert result.writable == (repository,)
    assert {repository / ".git/hooks", repository / ".git/config"} <= set(result.protected)
    assert not (repository / ".git/hooks").exists()
    assert result.may_write(repository / "sub/x")
    assert not result.may_write(repository / ".git/hooks/x")


def test_a_submodule_is_protected_with_its_repository(tmp_path, environ):
    inner = make_repository(tmp_path / "inner")
    outer = make_repository(tmp_path / "outer")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "a/b")
    data = outer / ".git/modules/a/b"
    assert data / "hooks" in found(outer, environ).protected
    from_within = found(outer / "a/b", environ)
    assert set(from_within.writable) == {outer / "a/b", data}
    assert {data / "config", outer / "a/b/.git"} <= set(from_within.protected)


def test_settings_of_a_worktree_are_protected_where_git_reads_them(tmp_path, environ):
    repository = make_repository(tmp_path / "repository")
    git(repository, "config", "extensions.worktreeConfig", "true")
    assert repository / ".git/config.worktree" in found(repository, environ).protected


def test_a_home_that_is_a_repository_is_not_writable_from_below(tmp_path, environ):
    home = make_repository(tmp_path / "home")
    (home / "project").mkdir()
    assert found(home / "project", environ).writable == (home / "project",)


def test_secrets_that_are_there_are_hidden(tmp_path, environ):
    home = tmp_path / "home"
    (home / ".ssh").mkdir()
    (home / ".netrc").write_text("")
    agent = home / "agent.sock"
    with socket.socket(socket.AF_UNIX) as server:
        folder = os.open(home, os.O_RDONLY)
        server.bind(f"/proc/self/fd/{folder}/agent.sock")
        os.close(folder)
        state = tmp_path / "state"
        environ["SSH_AUTH_SOCK"] = str(agent)
        result = found(
            tmp_path / "work", environ, agent_files=[state], readable=[state / "outputs"]
        )
    assert {home / ".ssh", home / ".netrc", agent, state} <= set(result.hidden)
    assert home / ".aws" in result.hidden, "it may come while the session runs"
    assert result.may_read(state / "outputs/x")
    assert not result.may_read(state / "x")
    assert found(home / ".ssh", environ).may_read(home / ".ssh/id")


# Hints

MEMORY = Path("/dev/mem").exists()
TRACEBACK = """\
  File "httpx/_transports/default.py", line 70, in map_httpcore_exceptions
    for res in _socket.getaddrinfo(host, port, family, type, proto, flags):
urllib3.exceptions.NewConnectionError = raised in test_dial_tcp
ModuleNotFoundError: No module named 'flask'
"""


@pytest.mark.parametrize(
    ("output", "layer", "network", "word"),
    [
        ("curl: (6) Could not resolve host: example.org", "bubblewrap", False, "network: true"),
        ("npm error code ENOTFOUND", "bubblewrap", False, "network: true"),
        ("Error: getaddrinfo EAI_AGAIN registry.npmjs.org", "bubblewrap", False, "network: true"),
        ("dial tcp: lookup proxy.golang.org: i/o timeout", "bubblewrap", False, "network: true"),
        ("connect: Network is unreachable", "bubblewrap", False, "network: true"),
        ("ssh: Could not resolve hostname github.com", "bubblewrap", False, "network: true"),
        (TRACEBACK, "bubblewrap", False, ""),
        ("ModuleNotFoundError: No module named 'flask'", "bubblewrap", False, ""),
        ("FAILED test_dns.py::test_name_resolution - no such host", "bubblewrap", False, ""),
        ("Connection refused: http://127.0.0.1:8000", "bubblewrap", False, "127.0.0.1:8000)"),
        ("Connection refused: http://127.0.0.1:8000", "landlock", False, ""),
        ("curl: (6) Could not resolve host: example.org", "bubblewrap", True, ""),
        ("touch: cannot touch '/etc/x': Read-only file system", "bubblewrap", False, "unsandboxed"),
        ("mkdir: cannot create 'x': Permission denied", "landlock", False, "unsandboxed"),
        ("mkdir: cannot create 'x': Permission denied", "bubblewrap", False, ""),
        ("cat: /Users/a/.ssh/id: Permission denied", "bubblewrap", False, "unsandboxed"),
        ("AssertionError: 1 != 2", "bubblewrap", False, ""),
        ("Read-only file system", "none", False, ""),
    ],
)
def test_a_failure_of_the_sandbox_is_recognised(output, layer, network, word):
    sandbox = Sandbox(layer, scope(), network)
    hint = refused_by_sandbox(output, 1, sandbox)
    assert word in hint if word else hint == ""
    assert refused_by_sandbox(output, 0, sandbox) == ""
    assert refused_by_sandbox(output, 130, sandbox) == ""


UNRESOLVED = "fatal: unable to access 'https://x.org/y/': Could not resolve host: x.org"


@each_row(
    "command, exit_code, output, word",
    [
        ("git clone https://x.org/y", 128, UNRESOLVED, "network: true"),
        ("git -x", 129, UNRESOLVED, ""),
        ("ssh x.org", 255, "ssh: Could not resolve hostname x.org", "network: true"),
        ("curl https://x.org", 137, "curl: (6) Could not resolve host: x.org", ""),
        ("git clone https://x.org/y 2>&1 | tail -1", 0, UNRESOLVED, "network: true"),
        ("npm i x | tail; true", 0, "npm error code ENOTFOUND", "network: true"),
        ("ss -ltn", 0, "Cannot open netlink socket: Operation not permitted\nState", "netlink"),
        ("cat log | tail -1", 0, UNRESOLVED, ""),
        ("grep -r resolve . | head", 0, f"log:1:{UNRESOLVED}", ""),
        ("make test", 0, "ok 3 - it says Could not resolve host", ""),
        ("touch /etc/x || true", 0, "touch: cannot touch '/etc/x': Read-only file system", ""),
    ],
)
def test_failures_are_told_whatever_the_exit_code_unless_a_signal_ended_it(
    command, exit_code, output, word
):
    sandbox = Sandbox("bubblewrap", scope(), network=False)
    hint = refused_by_sandbox(output, exit_code, sandbox, command=command)
    assert word in hint if word else hint == ""


BARE = Sandbox("landlock", scope(), network=False)


@each_row(
    "output, sandbox, word",
    [
        ("Cannot open netlink socket: Operation not permitted", BARE, "ip, ss"),
        ("uv_interface_addresses returned Unknown system error 1", BARE, "netlink"),
        ("No permission to enable cycles:u event.", BARE, "perf"),
        ("[1:1:FATAL] No usable sandbox! Update your kernel", BARE, "--no-sandbox"),
        ("unshare: unshare failed: Operation not permitted", BARE, "namespaces"),
        ("fatal: could not create leading directories of '../x/.git': Read-only file system",
         replace(BARE, namespaces=True), "new folders can be made only in the workspace and /tmp"),
        ("bash: /tmp/x: Permission denied", BARE, "only in the workspace and $TMPDIR,"),
        ("bash: /x: Read-only file system", replace(BARE, namespaces=True), "and /tmp,"),
        ('socket.py", line 232\nPermissionError: [Errno 1] Operation not permitted', BARE,
         "not even on 127.0.0.1"),
        ("Error: listen EPERM: operation not permitted 0.0.0.0:1", BARE, "Unix socket in $TMPDIR"),
        ("Error: listen EPERM: operation not permitted", replace(BARE, network=True, once=True),
         "no Unix sockets"),
        ("script: failed to create pseudo-terminal: Permission denied", BARE, "terminals"),
        ("OSError: out of pty devices", BARE, "terminals"),
        ("cat: /dev/mem: Permission denied", BARE, f"{'/dev/mem' if MEMORY else 'unsandboxed'}"),
        ("echo: /dev/null: Permission denied", BARE, "hides secrets"),
        ("chmod: changing permissions of 'x': Operation not permitted", BARE, "set-user-ID"),
    ],
)  # fmt: skip
def test_hints_name_what_was_refused(output, sandbox, word):
    assert word in refused_by_sandbox(output, 1, sandbox)


def test_code_of_the_python_tool_is_sent_to_bash_for_more_rights():
    sandbox = Sandbox("bubblewrap", scope(), network=False)
    output = "urllib.error.URLError: [Errno -3] Temporary failure in name resolution"
    hint = refused_by_sandbox(output, 1, sandbox, from_python=True)
    assert "do it in bash with network: true" in hint
