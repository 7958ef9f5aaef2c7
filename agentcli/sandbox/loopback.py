"""Connects the loopback of a sandbox with that of the machine, one port at a time.

A socket belongs to the network namespace in which it was made, whoever holds it. So agent holds one
socket in the sandbox and one on the machine, and relays the bytes. Commands get only that one port
and can't ask for another.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock, Thread

from agentcli.system.processes import ProcessStat, descendants, is_running, process_stat

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


_DRIVER = Path(__file__).with_name("netns_driver.py")
_PATIENCE_S = 10.0
_LISTENS = "0A"
_LOOPBACK = {
    *("0100007F", "00000000", "0" * 32, "00000000000000000000000001000000"),
    "0000000000000000FFFF00000100007F",
}
"""Addresses at which a program answers on loopback, in the format of /proc/PID/net/tcp."""


class NamespaceSockets:
    """Makes sockets in the network namespace of `process`, which runs in one of our sandboxes."""

    def __init__(self, process: ProcessStat) -> None:
        """Raises OSError if that namespace can't be joined."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(_PATIENCE_S)
        network = os.open(f"/proc/{process.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            if not is_running(process):
                raise ProcessLookupError(f"process {process.pid} has ended")
            self._driver = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_DRIVER), str(theirs.fileno()), str(network)],
                pass_fds=(theirs.fileno(), network),
                env={k: v for k, v in os.environ.items() if k == "LD_LIBRARY_PATH"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            os.close(network)
            theirs.close()
        self._wishes = ours
        self._lock = Lock()
        if ours.recv(8) != b"0":
            self.close()
            raise OSError("the sandbox's network can't be joined")

    def listen(self, port: int) -> socket.socket:
        """Return a socket that listens on 127.0.0.1 there. Raises OSError."""
        return self._made(f"listen {port}")

    def connect(self, port: int) -> socket.socket:
        """Return a socket connected to what listens there. Raises OSError."""
        return self._made(f"connect {port}")

    def _made(self, wish: str) -> socket.socket:
        with self._lock:
            self._wishes.send(wish.encode())
            answer, descriptors, _, _ = socket.recv_fds(self._wishes, 8, 1, socket.MSG_CMSG_CLOEXEC)
        if not descriptors:
            number = int(answer or b"32")
            raise OSError(number, os.strerror(number))
        return socket.socket(fileno=descriptors[0])

    def close(self) -> None:
        self._wishes.close()
        self._driver.kill()
        self._driver.wait()


class HostPorts:
    """Ports of the machine's loopback, available to one sandbox's commands on its own loopback."""

    def __init__(self, pid: int, ports: Sequence[int]) -> None:
        """`pid` is a process in the sandbox, which must have a network of its own."""
        self._relays: list[Relay] = []
        self.failures: list[str] = []
        """Ports that could not be made available, in words for the model."""
        process = process_stat(pid)
        if process is None or not ports:
            return
        try:
            namespace = NamespaceSockets(process)
        except OSError as error:
            self.failures.append(f"ports of the host can't be reached: {error}")
            return
        try:
            for port in ports:
                self._open(namespace, port)
        finally:
            namespace.close()

    def _open(self, namespace: NamespaceSockets, port: int) -> None:
        try:
            listener = namespace.listen(port)
        except OSError as error:
            self.failures.append(f"port {port} of the host can't be reached: {error.strerror}")
            return
        here = ("127.0.0.1", port)
        self._relays.append(Relay(listener, lambda: socket.create_connection(here, _PATIENCE_S)))

    def close(self) -> None:
        for relay in self._relays:
            relay.close()


class OpenPort:
    """A port of a sandbox, reachable at `url` until it is closed, for programs of the user and of
    root."""

    def __init__(self, process: ProcessStat, port: int) -> None:
        """`process` is in the sandbox. The machine's port has the same number if that is free.
        Raises OSError."""
        self._namespace = NamespaceSockets(process)
        try:
            try:
                listener = socket.create_server(("127.0.0.1", port))
            except OSError:
                listener = socket.create_server(("127.0.0.1", 0))
        except OSError:
            self._namespace.close()
            raise
        self.port: int = listener.getsockname()[1]
        self._relay = Relay(listener, lambda: self._namespace.connect(port), _is_of_user)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def close(self) -> None:
        self._relay.close()
        self._namespace.close()


def listening_process(root: int, port: int) -> ProcessStat | None:
    """Return a process below `root` in whose network something listens on `port` of loopback;
    prefer one with a network of its own."""
    here = _network_of(os.getpid())
    found = {
        network: process
        for process in descendants(root)
        if not process.over and (network := _network_of(process.pid)) is not None
    }
    for network in sorted(found, key=lambda network: network == here):
        if port in _listening_ports(found[network].pid):
            return found[network]
    return None


def has_own_network(process: ProcessStat) -> bool:
    return _network_of(process.pid) != _network_of(os.getpid())


def _network_of(pid: int) -> str | None:
    with suppress(OSError):
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    return None


def _listening_ports(pid: int) -> Iterator[int]:
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                _, local, _, state, *_ = line.split()
                address, _, number = local.partition(":")
                if state == _LISTENS and address in _LOOPBACK:
                    yield int(number, 16)


def _is_of_user(connection: socket.socket) -> bool:
    """Return whether the other end belongs to a program of our user or of root, because every user
    can connect to the machine's loopback. False if that end is closed: the kernel then reports no
    owner."""
    try:
        wanted = [_in_proc(connection.getpeername()), _in_proc(connection.getsockname())]
        rows = Path("/proc/self/net/tcp").read_text().splitlines()[1:]
    except OSError:
        return False
    for row in rows:
        _, local, remote, _, _, _, _, user, _, inode, *_ = row.split()
        if [local, remote] == wanted:
            return int(user) in (0, os.geteuid()) and inode != "0"
    return False


def _in_proc(address: tuple[str, int]) -> str:
    """Return an IPv4 address in the format of /proc/PID/net/tcp."""
    host, port = address
    return f"{int.from_bytes(socket.inet_aton(host), sys.byteorder):08X}:{port:04X}"
