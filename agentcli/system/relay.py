"""Passes bytes between connections to one socket and connections to another."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread

_CHUNK = 65_536
_MOST_CONNECTIONS = 100


class Relay:
    """Relays connections from creation until `close`, with two threads for each.

    Each connection to `listener` that `admits` accepts is relayed to a new one from `connect`,
    which may raise OSError. Takes ownership of `listener`.
    """

    def __init__(
        self,
        listener: socket.socket,
        connect: Callable[[], socket.socket],
        admits: Callable[[socket.socket], bool] = lambda connection: True,
    ) -> None:
        self._listener = listener
        self._connect = connect
        self._admits = admits
        self._is_closed = False
        self._near_ends: set[socket.socket] = set()
        self._far_ends: set[socket.socket] = set()
        self._thread = Thread(target=self._accept_all, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End all connections."""
        self._is_closed = True
        _break_off(self._listener)
        self._thread.join()
        self._listener.close()
        for end in (*self._near_ends, *self._far_ends):
            _break_off(end)

    def _accept_all(self) -> None:
        while not self._is_closed:
            with suppress(OSError):
                near, _ = self._listener.accept()
                try:
                    Thread(target=self._relay, args=(near,), daemon=True).start()
                except RuntimeError:
                    # The system gives us no more threads; later ones may get theirs.
                    near.close()

    def _relay(self, near: socket.socket) -> None:
        with near, suppress(OSError, RuntimeError), _member(near, self._near_ends):
            if len(self._near_ends) > _MOST_CONNECTIONS or not self._admits(near):
                return
            with self._connect() as far, _member(far, self._far_ends):
                far.setblocking(True)
                # `close` breaks off what it finds; what comes later ends here.
                if not self._is_closed:
                    back = Thread(target=_pass_on, args=(far, near), daemon=True)
                    back.start()
                    _pass_on(near, far)
                    back.join()


@contextmanager
def _member(end: socket.socket, ends: set[socket.socket]) -> Iterator[None]:
    ends.add(end)
    try:
        yield
    finally:
        ends.discard(end)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    """Pass on what `source` sends until its end, and then that. If the connection broke, end both
    directions."""
    try:
        while data := source.recv(_CHUNK):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        _break_off(source)
        _break_off(target)


def _break_off(end: socket.socket) -> None:
    """End a socket for all threads that wait for it."""
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
