"""Memory, queues and files that programs of the machine share with each other."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from ._parts import attempt, called, content, libc, require

_PAGE = 4096
_NO_WAIT = 0o4000
_GETVAL = 12
libc.shmat.restype = ctypes.c_void_p


@attempt
def shared_memory(place: dict[str, Any]) -> object:
    """By its key, and by its number for who can't ask for that."""
    found = libc.shmget(place["key_of_ipc"], _PAGE, 0)
    address = libc.shmat(found if found >= 0 else place["shared_memory"], None, 0o10000)
    require(address != ctypes.c_void_p(-1).value)
    return ctypes.string_at(address, 6)


@attempt
def message_queue(place: dict[str, Any]) -> object:
    found = libc.msgget(place["key_of_ipc"], 0)
    space = ctypes.create_string_buffer(64)
    number = found if found >= 0 else place["message_queue"]
    called(libc.msgrcv(number, space, 8, 0, _NO_WAIT | 0o10000))
    return space.raw[8:16]


@attempt
def message_to_queue(place: dict[str, Any]) -> object:
    message = (1).to_bytes(8, "little") + b"attacked"
    return called(libc.msgsnd(place["message_queue"], message, 8, _NO_WAIT))


@attempt
def semaphores(place: dict[str, Any]) -> object:
    found = libc.semget(place["key_of_ipc"], 1, 0)
    return called(libc.semctl(found if found >= 0 else place["semaphores"], 0, _GETVAL))


@attempt
def posix_queue(place: dict[str, Any]) -> object:
    return called(libc.syscall(240, place["posix_queue"].encode(), os.O_RDWR, 0, None))


@attempt
def posix_memory(place: dict[str, Any]) -> object:
    return content(f"/dev/shm/{place['posix_memory']}")


@attempt
def pipe_read(place: dict[str, Any]) -> object:
    return _read_pipe(place["pipe"])


@attempt
def pipe_write(place: dict[str, Any]) -> object:
    return _write_pipe(place["pipe"])


@attempt
def pipe_at_home_read(place: dict[str, Any]) -> object:
    return _read_pipe(place["pipe_at_home"])


@attempt
def pipe_at_home_write(place: dict[str, Any]) -> object:
    return _write_pipe(place["pipe_at_home"])


def _read_pipe(path: str) -> bytes:
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as pipe:
        said = pipe.read(6)
    require(said)
    return said


def _write_pipe(path: str) -> int:
    with open(os.open(path, os.O_WRONLY | os.O_NONBLOCK), "wb", buffering=0) as pipe:
        return pipe.write(b"secret")


@attempt
def file_of_another_user(place: dict[str, Any]) -> object:
    """That only its owner may read, and a root with its powers."""
    return content(place["theirs"])
