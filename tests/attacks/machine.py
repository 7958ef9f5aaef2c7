"""What other programs of the machine have set up: memory, queues, sockets, pipes, files."""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

_CREATE = 0o1000 | 0o2000 | 0o666
_REMOVE = 0
_MANY = 260
"""More sockets than can be covered one by one."""
_libc = ctypes.CDLL(None, use_errno=True)
_libc.shmat.restype = ctypes.c_void_p


@contextmanager
def shared_things(base: Path, home: Path, user: int | None) -> Iterator[dict[str, Any]]:
    """Open to every user of the machine, with something to be read; `theirs` is closed to all but a
    user who is nobody of ours. `user`: who the agent runs as, if it is not us."""
    mark = os.urandom(4).hex()
    key = int(mark, 16) & 0x7FFFFFFF
    folder = base / "programs"
    folder.mkdir(exist_ok=True)
    with ExitStack() as stack:
        place = {**_ipc(key, stack), **_sockets(folder, mark, stack)}
        place["pipe"] = _pipe(folder / f"pipe-{mark}", stack)
        place["pipe_at_home"] = _pipe(home / ".player" / "control", stack)
        memory = Path(f"/dev/shm/agent-{mark}")
        memory.write_text("secret")
        stack.callback(memory.unlink)
        theirs = folder / f"theirs-{mark}"
        theirs.write_text("secret")
        theirs.chmod(0o600 if os.getuid() == 0 else 0)
        ours = [memory, Path(place["pipe_at_home"]), *(folder.iterdir()), *folder.glob("many*/*")]
        for path in ours:
            if path != theirs and not path.is_dir():
                path.chmod(0o666)
                os.chown(path, user or os.getuid(), user or os.getgid())
        if os.getuid() == 0:
            os.chown(theirs, 12345, 12345)
        yield {**place, "posix_memory": memory.name, "theirs": str(theirs)}


def _ipc(key: int, stack: ExitStack) -> dict[str, Any]:
    memory = _made(_libc.shmget(key, 4096, _CREATE))
    stack.callback(_libc.shmctl, memory, _REMOVE, None)
    address = _libc.shmat(memory, None, 0)
    ctypes.memmove(address, b"secret", 6)
    _libc.shmdt(ctypes.c_void_p(address))
    queue = _made(_libc.msgget(key, _CREATE))
    stack.callback(_libc.msgctl, queue, _REMOVE, None)
    _made(_libc.msgsnd(queue, (1).to_bytes(8, "little") + b"secret!!", 8, 0))
    semaphores = _made(_libc.semget(key, 1, _CREATE))
    stack.callback(_libc.semctl, semaphores, 0, _REMOVE)
    name = f"agent-{key}"
    posix = _made(_libc.syscall(240, name.encode(), os.O_RDWR | os.O_CREAT, 0o666, None))
    os.fchmod(posix, 0o666)
    stack.callback(_libc.syscall, 241, name.encode())
    stack.callback(os.close, posix)
    return {
        "key_of_ipc": key,
        "shared_memory": memory,
        "message_queue": queue,
        "semaphores": semaphores,
        "posix_queue": name,
    }


def _made(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _sockets(folder: Path, mark: str, stack: ExitStack) -> dict[str, Any]:
    datagram = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    datagram.bind(f"{folder}/log-{mark}")
    many = folder / f"many-{mark}"
    many.mkdir()
    many.chmod(0o755)
    for number in range(_MANY):
        server = stack.enter_context(socket.socket(socket.AF_UNIX))
        server.bind(f"{many}/{number}")
        server.listen()
    return {"unix_datagram": f"{folder}/log-{mark}", "unix_many": str(many)}


def _pipe(path: Path, stack: ExitStack) -> str:
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    # Open for both directions, so that whoever opens it for one is not kept waiting.
    descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    stack.callback(os.close, descriptor)
    stack.callback(path.unlink)
    os.write(descriptor, b"secret")
    return str(path)
