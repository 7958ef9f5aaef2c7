"""Makes sockets in the network namespace of a sandbox.

It is a program of its own, because only a process with a single thread may join a user namespace.
It uses only the standard library and loads nothing of agent's.

Arguments: the descriptor of a packet socket, and that of the namespace. Each packet is `listen
PORT` or `connect PORT`; the answer is `0` with the socket, or an error number.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import sys

_USER_NAMESPACE_OF = 0xB701
"""NS_GET_USERNS gets the user namespace that owns another namespace; its creator has full rights in
it."""
_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
_PARENT_DEATH_SIGNAL = 1
_CONNECT_S = 5.0
_WAITING = 64
_BOTH = ("127.0.0.1", "::1")


def main() -> None:
    """Answer requests until the other side hangs up. Raises OSError if the namespace can't be
    joined."""
    wishes = socket.socket(fileno=int(sys.argv[1]))
    _join(int(sys.argv[2]))
    wishes.send(b"0")
    while wish := wishes.recv(64):
        kind, port = wish.decode("ascii").split()
        try:
            if kind == "listen":
                made = socket.create_server(("127.0.0.1", int(port)), backlog=_WAITING)
            else:
                made = _connected(int(port))
        except OSError as error:
            wishes.send(str(error.errno or 1).encode())
            continue
        with made:
            socket.send_fds(wishes, [b"0"], [made.fileno()])


def _join(network: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    owner = fcntl.ioctl(network, _USER_NAMESPACE_OF)
    for namespace, kind in ((owner, _NEW_USER), (network, _NEW_NET)):
        if libc.setns(namespace, kind):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        os.close(namespace)
    # Only now, because the kernel clears this setting when credentials change.
    libc.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def _connected(port: int) -> socket.socket:
    for host in _BOTH:
        try:
            return socket.create_connection((host, port), _CONNECT_S)
        except OSError as error:
            failure = error
    raise failure


if __name__ == "__main__":
    main()
