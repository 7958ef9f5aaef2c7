"""Loopback between a sandbox and the machine: a port of the host by a rule, a port of the sandbox
for the person's browser, and nothing else either way."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agentcli.sandbox.loopback import Relay
from tests.cli.test_workspaces import needs_bubblewrap, outputs
from tests.conftest import LIMIT_S, PYTHON
from tests.sandbox.sandboxes import LAYERS, without_call
from tests.scripted import bash, call
from tests.server import Call, Reply

Service = Callable[[], int]


@pytest.fixture
def service() -> Iterator[Service]:
    """Starts what answers each connection with what it was sent, in capitals; returns its port."""
    listeners: list[socket.socket] = []

    def answer(connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(65_536):
                connection.sendall(data.upper())

    def accept(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

    def start() -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        return int(listener.getsockname()[1])

    yield start
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def asking(port: int, host: str = "127.0.0.1") -> str:
    return (
        f"import socket; s = socket.create_connection(('{host}', {port}), 5); "
        "s.sendall(b'hello'); print(s.recv(9).decode())"
    )


def ask(port: int, host: str = "127.0.0.1") -> Reply:
    return bash(f'python3 -c "{asking(port, host)}"')


def fetch(port: int) -> bytes:
    """What an HTTP server of a session answers to a browser of the person."""
    with socket.create_connection(("127.0.0.1", port), LIMIT_S) as connection:
        connection.sendall(b"GET /page.txt HTTP/1.0\r\n\r\n")
        answer = b""
        while data := connection.recv(65_536):
            answer += data
    return answer


# --- ports of the host


@pytest.mark.parametrize("layer", LAYERS)
def test_a_rule_opens_one_port_of_the_host_and_no_other(agent, serve, service, layer):
    allowed, other = service(), service()
    in_python = call("python", code=asking(allowed))
    named = ask(allowed, "localhost")
    again = call("bash", command="true", restart=True)
    script = [ask(allowed), ask(other), in_python, again, named, Reply("Done.")]
    server = agent.asks(serve(script))
    rule = ["--allow", f"network(127.0.0.1:{allowed})"]
    agent("run", *rule, *PYTHON, "--set", f"sandbox.layer={layer}", "x")
    first, second, *_, last = outputs(agent)
    assert first == last == "HELLO"
    assert "HELLO" not in second
    events = sorted((agent.sessions[-1] / "events").glob("*.json"))
    cells = [e for e in map(json.loads, map(Path.read_text, events))
             if e.get("observation") == "run_ipython"]  # fmt: skip
    assert "HELLO" in cells[0]["content"]
    told = json.dumps(server.requests[0].body)
    assert f"a loopback of its own, at which {allowed} is the host's" in told


@needs_bubblewrap
@pytest.mark.parametrize("how", ["no rule", "denied too", "a rule of the project"])
def test_without_a_rule_of_the_person_loopback_is_the_sandbox_s_own(agent, serve, service, how):
    port = service()
    rule = f"network(127.0.0.1:{port})"
    flags = {"denied too": ["--allow", rule, "--deny", rule]}.get(how, [])
    if how == "a rule of the project":
        (agent.workspace / ".agent").mkdir()
        project = agent.workspace / ".agent/config.toml"
        project.write_text(f'[security]\nallow = ["{rule}"]\n')
    failing = f"echo 'connect ECONNREFUSED 127.0.0.1:{port}'; exit 1"
    server = agent.asks(serve([ask(port), bash(failing), Reply("Done.")]))
    agent("run", *flags, "x")
    assert "HELLO" not in outputs(agent)[0]
    assert f"they can open it with --allow 'network(127.0.0.1:{port})'" in json.dumps(
        server.requests[-1].body
    )


@needs_bubblewrap
def test_a_port_at_which_nothing_listens_or_much_is_sent_is_like_any(agent, serve, service):
    port = service()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        gone = closed.getsockname()[1]
    much = (
        f"import socket, threading; s = socket.create_connection(('127.0.0.1', {port}), 20); "
        "n = 20_000_000; threading.Thread(target=lambda: (s.sendall(b'a' * n), "
        "s.shutdown(socket.SHUT_WR))).start(); "
        "got = 0\nwhile data := s.recv(1 << 20): got += data.count(b'A')\nprint(got == n)"
    )
    code = call("python", code=much)
    agent.use(serve([code, ask(gone), ask(port), Reply("Done.")]))
    rules = [f"network(127.0.0.1:{each})" for each in (port, gone)]
    agent("run", *PYTHON, "--allow", rules[0], "--allow", rules[1], "x")
    assert "HELLO" not in outputs(agent)[0]
    assert outputs(agent)[1] == "HELLO"
    events = sorted((agent.sessions[-1] / "events").glob("*.json"))
    texts = "".join(map(Path.read_text, events))
    assert "True" in texts


@pytest.mark.parametrize(
    "rule",
    ["network", "network(example.org:80)", "network(127.0.0.1)", "network(127.0.0.1:70000)",
     "network(0.0.0.0:80)", "network(127.0.0.1:5432:*)", "network(*)"],
)  # fmt: skip
def test_a_rule_is_for_one_port_of_loopback(agent, serve, rule):
    agent.use(serve([]))
    done = agent("run", "--allow", rule, "x")
    assert done.returncode == 3
    assert "network(127.0.0.1:5432)" in done.stderr


@pytest.mark.skipif("landlock" not in LAYERS, reason="needs Landlock")
def test_where_no_port_can_be_opened_it_is_said(agent, serve):
    agent.use(serve([Reply("Hello.")]))
    flags = ["--set", "sandbox.layer=landlock", "--allow", "network(127.0.0.1:5432)"]
    process = agent.start("run", *flags, "x", preexec_fn=without_call("unshare", errno.EPERM))
    assert b"rules for ports of this machine take no effect" in process.communicate()[1]


# --- ports of a sandbox


@needs_bubblewrap
def test_a_server_of_a_session_is_reached_while_the_person_wants_it(agent, serve):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (agent.workspace / "page.txt").write_text("it works\n")
    os.mkfifo(agent.workspace / "end")
    background = {"command": f"python3 -m http.server {port} -b 127.0.0.1", "background": True}
    up = f"until echo > /dev/tcp/127.0.0.1/{port}; do :; done 2>/dev/null; touch up; cat end"
    agent.use(serve([Reply("", [Call("bash", background)]), bash(up), Reply("Done.")]))
    run = agent.start("run", "x")
    try:
        await_file(agent.workspace / "up", run)
        with pytest.raises(ConnectionRefusedError):
            fetch(port)
        missing = agent("open", "1")
        assert missing.returncode == 1
        assert "nothing that the session has started listens on 127.0.0.1:1" in missing.stderr
        opened = agent.start("open", str(port))
        url = opened.stdout.readline().decode().strip()
        assert url == f"http://127.0.0.1:{port}/"
        assert fetch(port).endswith(b"it works\n")
        assert fetch(port).endswith(b"it works\n")
        if os.geteuid() == 0:
            assert b"HTTP" in fetched_as(0, port)
            assert b"HTTP" not in fetched_as(65_534, port)
        # Whoever else is on the network does not reach it.
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port), LIMIT_S)
    finally:
        (agent.workspace / "end").write_text("")
        run.communicate(timeout=LIMIT_S)
    assert opened.wait(timeout=LIMIT_S) == 0
    with pytest.raises(ConnectionRefusedError):
        fetch(port)
    opened.communicate()
    told = agent("open", str(port))
    assert told.returncode == 1
    assert "is not open anywhere" in told.stderr


def fetched_as(user: int, port: int) -> bytes:
    """What another user of the machine is answered."""
    get = "printf 'GET /page.txt HTTP/1.0\\r\\n\\r\\n'"
    bash = ["/bin/bash", "-c", f"exec 3<> /dev/tcp/127.0.0.1/{port}; {get} >&3; cat <&3"]
    return subprocess.run(bash, user=user, capture_output=True, cwd="/", check=False).stdout


def await_file(path: Path, run: subprocess.Popen[bytes]) -> None:
    """Returns when a command of the run has made it."""
    while not path.exists():
        assert run.poll() is None, run.communicate()
        threading.Event().wait(0.02)


# --- what passes bytes on


def test_each_direction_of_a_connection_ends_by_itself(service):
    port = service()
    listener = socket.create_server(("127.0.0.1", 0))
    relay = Relay(listener, lambda: socket.create_connection(("127.0.0.1", port)))
    many = [socket.create_connection(listener.getsockname(), LIMIT_S) for _ in range(20)]
    for number, connection in enumerate(many):
        connection.sendall(f"number {number}".encode())
        connection.shutdown(socket.SHUT_WR)
    for number, connection in enumerate(many):
        with connection:
            said = b"".join(iter(lambda c=connection: c.recv(100), b""))
        assert said == f"NUMBER {number}".encode()
    relay.close()


@pytest.mark.parametrize("without_thread", [1, 2])
def test_connections_that_get_no_thread_are_closed_and_later_ones_relayed(
    service, monkeypatch, without_thread
):
    port = service()
    listener = socket.create_server(("127.0.0.1", 0))
    relay = Relay(listener, lambda: socket.create_connection(("127.0.0.1", port)))
    started = iter(range(1, 100))

    class Rare(threading.Thread):
        def start(self) -> None:
            if next(started) == without_thread:
                raise RuntimeError("can't start new thread")
            super().start()

    monkeypatch.setattr("agentcli.sandbox.loopback.Thread", Rare)
    with socket.create_connection(listener.getsockname(), LIMIT_S) as connection:
        assert connection.recv(1) == b""
    with socket.create_connection(listener.getsockname(), LIMIT_S) as connection:
        connection.sendall(b"x")
        assert connection.recv(1) == b"X"
    relay.close()


def test_a_connection_that_leads_nowhere_is_closed():
    def refuse() -> socket.socket:
        raise ConnectionRefusedError

    listener = socket.create_server(("127.0.0.1", 0))
    relay = Relay(listener, refuse)
    with socket.create_connection(listener.getsockname(), LIMIT_S) as connection:
        assert connection.recv(1) == b""
    relay.close()
