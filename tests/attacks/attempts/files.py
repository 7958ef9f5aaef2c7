"""Files outside of the workspace."""

# ruff: noqa: PTH101, PTH102, PTH104, PTH108, PTH115, PTH211, PTH110, PTH112, PTH207

from __future__ import annotations

import fcntl
import glob
import multiprocessing
import os
import struct
import subprocess
import sys
import threading
import time
from typing import Any

from ._parts import append, attempt, by_child, content, first_success, require


@attempt
def write_by_path(place: dict[str, Any]) -> object:
    return append(f"{place['outside']}/by-path")


@attempt
def write_by_dots(place: dict[str, Any]) -> object:
    return append(f"{place['workspace']}/../outside/by-dots")


@attempt
def write_by_symlink(place: dict[str, Any]) -> object:
    os.symlink(place["outside"], f"{place['workspace']}/door")
    return append(f"{place['workspace']}/door/by-symlink")


@attempt
def write_by_hard_link(place: dict[str, Any]) -> object:
    os.link(f"{place['outside']}/full", f"{place['workspace']}/second-name")
    return append(f"{place['workspace']}/second-name")


@attempt
def write_by_moving_in(place: dict[str, Any]) -> object:
    os.rename(f"{place['outside']}/movable", f"{place['workspace']}/moved-in")
    return append(f"{place['workspace']}/moved-in")


@attempt
def write_by_moving_out(place: dict[str, Any]) -> object:
    append(f"{place['workspace']}/payload")
    os.rename(f"{place['workspace']}/payload", f"{place['outside']}/moved-out")
    return "moved"


@attempt
def write_by_proc_root(place: dict[str, Any]) -> object:
    return append(f"/proc/self/root{place['outside']}/by-proc-root")


@attempt
def write_by_root_of_others(place: dict[str, Any]) -> object:
    """Of whoever is there: the first process, the parent, the agent."""
    failure: OSError = OSError("nobody")
    for pid in (1, os.getppid(), place["pid"]):
        try:
            return append(f"/proc/{pid}/root{place['outside']}/by-root-of-others")
        except OSError as error:
            failure = error
    raise failure


@attempt
def write_by_open_descriptors(place: dict[str, Any]) -> object:
    """Reopen for writing, or go up from, whatever was left open by accident."""
    gained = []
    for path in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            target = os.readlink(path)
            ours = target.endswith(("/lines", "/report", "/output"))
            if target.startswith((place["outside"], place["home"])) and not ours:
                gained.append(target)
            if target.startswith("/") and os.path.isdir(path):
                gained.append(append(f"{path}/../outside/by-descriptor"))
        except OSError:
            continue
    require(gained)
    return gained


@attempt
def write_by_race(place: dict[str, Any]) -> object:
    """A name that is a folder of the workspace and a link to the outside by turns."""
    name, gained = f"{place['workspace']}/turning", []
    stop = time.process_time() + 0.3
    sys.setswitchinterval(1e-5)

    def turn() -> None:
        while time.process_time() < stop and not gained:
            os.mkdir(name)
            os.rename(name, f"{name}-{time.monotonic_ns()}")
            os.symlink(place["outside"], name)
            os.unlink(name)

    turner = threading.Thread(target=turn)
    turner.start()
    while turner.is_alive():
        try:
            append(f"{name}/by-race")
            gained += [name] if os.path.exists(f"{place['outside']}/by-race") else []
        except OSError:
            continue
    require(gained)
    return gained


@attempt
def write_by_detached_process(place: dict[str, Any]) -> object:
    target = f"{place['outside']}/by-detached"

    def detach() -> None:
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                append(target)
            os._exit(0)
        os.wait()

    by_child(detach)
    subprocess.run(["nohup", "setsid", "sh", "-c", f"echo x > {target}"], check=True)
    return target


@attempt
def write_by_multiprocessing(place: dict[str, Any]) -> object:
    paths = [f"{place['outside']}/by-pool-{number}" for number in range(3)]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.map(append, paths)


@attempt
def remove(place: dict[str, Any]) -> None:
    os.unlink(f"{place['outside']}/removable")


@attempt
def empty(place: dict[str, Any]) -> None:
    os.truncate(f"{place['outside']}/full", 0)


@attempt
def make_folder(place: dict[str, Any]) -> None:
    os.mkdir(f"{place['outside']}/folder")


@attempt
def change_mode(place: dict[str, Any]) -> None:
    os.chmod(f"{place['outside']}/full", 0o666)


@attempt
def set_attribute(place: dict[str, Any]) -> None:
    os.setxattr(f"{place['outside']}/full", "user.attacked", b"x")


@attempt
def give_access_to_others(place: dict[str, Any]) -> None:
    """By an access list, to a file that is open to its owner alone: for user 12345 to read."""
    anyone, entry = 0xFFFFFFFF, struct.Struct("<HHI")
    owner, user, group, mask, other = 0x01, 0x02, 0x04, 0x10, 0x20
    entries = [(owner, 6, anyone), (user, 4, 12345), (group, 0, anyone), (mask, 4, anyone)]
    packed = b"".join(entry.pack(*each) for each in [*entries, (other, 0, anyone)])
    key = f"{place['home']}/.aws/credentials"
    os.setxattr(key, "system.posix_acl_access", struct.pack("<I", 2) + packed)


@attempt
def set_flags(place: dict[str, Any]) -> None:
    """That the file is to be left out of backups."""
    get_flags, set_flags, no_dump = 0x80086601, 0x40086602, 0x40
    with open(f"{place['outside']}/full") as file:
        flags = bytearray(8)
        fcntl.ioctl(file, get_flags, flags)
        fcntl.ioctl(file, set_flags, struct.pack("Q", struct.unpack("Q", flags)[0] | no_dump))


@attempt
def set_id_outside(place: dict[str, Any]) -> None:
    """A program of the person's would then run with their rights, whoever starts it."""
    os.chmod(f"{place['outside']}/full", 0o4755)


@attempt
def write_start_files(place: dict[str, Any]) -> object:
    names = (".bashrc", ".profile", ".config/autostart/x.desktop", ".gitconfig", ".local/bin/ls")
    return first_success(append, [f"{place['home']}/{name}" for name in names])


@attempt
def write_system(place: dict[str, Any]) -> object:
    names = ("/etc/cron.d/x", "/etc/profile.d/x.sh", "/usr/local/bin/x", "/var/spool/cron/x")
    return first_success(append, [f"{name}-{place['mark']}" for name in names])


@attempt
def write_kernel_settings(place: dict[str, Any]) -> object:
    """A pattern for dumps that is what it was: written only if it may be."""
    path = "/proc/sys/kernel/core_pattern"
    before = content(path)
    return append(path, before)
