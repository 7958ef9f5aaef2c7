"""Out of the sandbox, at the agent, at the machine."""

# ruff: noqa: PTH103, PTH208, PTH116

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import resource
import signal
import socket
import subprocess
import time
from typing import Any

from ._parts import attempt, by_child, called, content, libc, require

LINUX_TIOCSTI = 0x5412


@attempt
def new_namespaces(place: dict[str, Any]) -> None:
    by_child(lambda: called(libc.unshare(0x10000000 | 0x00020000)))


@attempt
def new_namespaces_by_clone(place: dict[str, Any]) -> None:
    by_child(lambda: called(libc.syscall(56, 0x10000000 | 17, 0, 0, 0, 0)))


@attempt
def unshare_program(place: dict[str, Any]) -> object:
    return subprocess.run(["unshare", "-Urm", "true"], check=True, capture_output=True).args


@attempt
def join_namespaces(place: dict[str, Any]) -> object:
    with open(f"/proc/{place['pid']}/ns/mnt") as other:
        return called(libc.setns(other.fileno(), 0))


@attempt
def mount(place: dict[str, Any]) -> object:
    target = f"{place['workspace']}/mounted".encode()
    os.makedirs(target, exist_ok=True)
    return called(libc.mount(place["outside"].encode(), target, None, 4096, None))


@attempt
def unmount(place: dict[str, Any]) -> object:
    """What covers the secrets."""
    return called(libc.umount2(f"{place['home']}/.ssh".encode(), 2))


@attempt
def change_root(place: dict[str, Any]) -> None:
    by_child(lambda: os.chroot(place["workspace"]))


@attempt
def make_device(place: dict[str, Any]) -> object:
    """One that is the disk: reading it passes every permission by."""
    node = f"{place['workspace']}/disk"
    os.mknod(node, 0o600 | 0o060000, os.stat(place["workspace"]).st_dev)
    return content(node)


@attempt
def trace_agent(place: dict[str, Any]) -> object:
    _same_process(place)
    return called(libc.ptrace(0x4206, place["pid"], 0, 0))


@attempt
def peek_at_agent(place: dict[str, Any]) -> object:
    _same_process(place)
    mine = ctypes.create_string_buffer(8)
    here = (ctypes.c_size_t * 2)(ctypes.addressof(mine), 8)
    there = (ctypes.c_size_t * 2)(0x1000, 8)
    read = libc.process_vm_readv(place["pid"], here, 1, there, 1, 0)
    require(read >= 0 or ctypes.get_errno() == errno.EFAULT)
    return "nothing lies at that address, but it may be looked at"


@attempt
def signal_agent(place: dict[str, Any]) -> object:
    os.kill(place["pid"], signal.SIGCONT)
    return _same_process(place)


@attempt
def signal_agent_by_descriptor(place: dict[str, Any]) -> None:
    _same_process(place)
    signal.pidfd_send_signal(os.pidfd_open(place["pid"]), signal.SIGCONT)


@attempt
def limit_agent(place: dict[str, Any]) -> object:
    """A limit on its processor time would end it."""
    _same_process(place)
    return resource.prlimit(place["pid"], resource.RLIMIT_CORE)


@attempt
def raise_own_limits(place: dict[str, Any]) -> None:
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    require(most != resource.RLIM_INFINITY, "there is none")
    by_child(lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most + 1, most + 1)))


@attempt
def slow_agent_down(place: dict[str, Any]) -> None:
    _same_process(place)
    os.setpriority(os.PRIO_PROCESS, place["pid"], 0)


def _same_process(place: dict[str, Any]) -> str:
    """In another namespace the number may be that of another process, or of none."""
    with open(f"/proc/{place['pid']}/stat") as file:
        require(file.read().rpartition(")")[2].split()[19] == str(place["started"]))
    return "the agent"


@attempt
def kill_everyone(place: dict[str, Any]) -> object:
    """All but the asker that may be signalled; nothing is sent."""
    others = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) == place["pid"]:
            _same_process(place)
            os.kill(int(name), 0)
            others.append(name)
    require(others)
    return others


@attempt
def type_at_terminal(place: dict[str, Any]) -> object:
    with open("/dev/tty", "wb", buffering=0) as terminal:
        return fcntl.ioctl(terminal, LINUX_TIOCSTI, b"#")


@attempt
def write_to_other_terminals(place: dict[str, Any]) -> object:
    """That of the person among them: a test's own stands for it."""
    with open(place["terminal"], "wb", buffering=0) as terminal:
        return terminal.write(b"spoofed")


@attempt
def gain_rights_by_setuid(place: dict[str, Any]) -> object:
    """`su` and its like, and one of our own making."""
    with open("/proc/self/status") as file:
        status = file.read()
    require("NoNewPrivs:\t0" in status)
    return "setuid programs gain rights"


@attempt
def have_capabilities(place: dict[str, Any]) -> object:
    with open("/proc/self/status") as file:
        lines = dict(line.split(":\t", 1) for line in file if ":\t" in line)
    held = {name: int(lines[name], 16) for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")}
    require(any(held.values()))
    return held


@attempt
def name_the_machine(place: dict[str, Any]) -> None:
    socket.sethostname(socket.gethostname())


@attempt
def set_the_clock(place: dict[str, Any]) -> None:
    time.clock_settime(time.CLOCK_REALTIME, time.time())


@attempt
def load_a_module(place: dict[str, Any]) -> object:
    return called(libc.syscall(313, -1, b"", 0))


@attempt
def program_the_kernel(place: dict[str, Any]) -> object:
    return called(libc.syscall(321, 0, None, 0))


@attempt
def use_keys_of_the_kernel(place: dict[str, Any]) -> object:
    return called(libc.syscall(250, 0, -3, 1, 0, 0))


@attempt
def call_as_32_bit(place: dict[str, Any]) -> None:
    """By the other numbering of x86, a filter that looks at numbers alone sees something else."""
    require(os.uname().machine == "x86_64", "another machine")
    by_child(lambda: called(libc.syscall(0x40000000 | 39)))
