"""Passes bytes between connections to one socket and connections to another."""

from __future__ import annotations

import os
import selectors
import socket
from collections.abc import Callable
from contextlib import suppress
from threading import Thread

_CHUNK = 65_536
_MOST_CONNECTIONS = 100


class _Stream:
    """One direction of a connection. `waiting` was read from `source` and not yet written to
    `target`."""

    def __init__(self, source: socket.socket, target: socket.socket) -> None:
        self.source = source
        self.target = target
        self.waiting = b""
        self.reads = True
        """False once `source` has ended."""
        self.open = True

    def read(self) -> None:
        """Raises OSError if the connection broke."""
        with suppress(BlockingIOError):
            self.waiting = self.source.recv(_CHUNK)
            self.reads = bool(self.waiting)

    def write(self) -> None:
        """Raises OSError if the connection broke."""
        with suppress(BlockingIOError):
            if self.waiting:
                self.waiting = self.waiting[self.target.send(self.waiting) :]
        if not self.waiting and not self.reads and self.open:
            self.open = False
            self.target.shutdown(socket.SHUT_WR)


class Relay:
    """Relays connections in a thread of its own from creation until `close`.

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
        self._selector = selectors.DefaultSelector()
        self._streams: dict[socket.socket, tuple[_Stream, _Stream]] = {}
        """For each end of a connection: the stream that reads from it and the one that writes to
        it."""
        self._wake, self._waker = os.pipe()
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End all connections."""
        os.close(self._waker)
        self._thread.join()

    def _run(self) -> None:
        try:
            while True:
                for key, events in self._selector.select():
                    if key.fileobj == self._wake:
                        return
                    if key.fileobj is self._listener:
                        self._accept()
                    elif isinstance(key.fileobj, socket.socket):
                        self._pass_on(key.fileobj, events)
        finally:
            for end in (*self._streams, self._listener):
                end.close()
            self._selector.close()
            os.close(self._wake)

    def _accept(self) -> None:
        try:
            near, _ = self._listener.accept()
        except OSError:
            return
        try:
            if len(self._streams) >= 2 * _MOST_CONNECTIONS:
                raise OSError("too many connections")
            if not self._admits(near):
                raise PermissionError("not for this user")
            far = self._connect()
        except OSError:
            near.close()
            return
        there, back = _Stream(near, far), _Stream(far, near)
        for end, streams in ((near, (there, back)), (far, (back, there))):
            end.setblocking(False)
            self._streams[end] = streams
            self._selector.register(end, selectors.EVENT_READ)

    def _pass_on(self, end: socket.socket, events: int) -> None:
        if end not in self._streams:
            # Closed together with its other end after the kernel reported the event.
            return
        read, written = self._streams[end]
        try:
            if events & selectors.EVENT_READ and read.reads and not read.waiting:
                read.read()
            for stream in (read, written):
                stream.write()
        except OSError:
            self._end(read)
            return
        if not read.open and not written.open:
            self._end(read)
            return
        for each in (read.source, read.target):
            self._watch(each)

    def _watch(self, end: socket.socket) -> None:
        read, written = self._streams[end]
        wanted = selectors.EVENT_READ if read.reads and not read.waiting else 0
        wanted |= selectors.EVENT_WRITE if written.waiting else 0
        registered = end in self._selector.get_map()
        if wanted and registered:
            self._selector.modify(end, wanted)
        elif wanted:
            self._selector.register(end, wanted)
        elif registered:
            self._selector.unregister(end)

    def _end(self, stream: _Stream) -> None:
        for end in (stream.source, stream.target):
            if self._streams.pop(end, None) is not None:
                with suppress(KeyError):
                    self._selector.unregister(end)
                end.close()
