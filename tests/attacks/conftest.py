"""Places to attack."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.attacks.leftovers import processes_with
from tests.attacks.raids import Arena, make_arena


@pytest.fixture
def arena(request: pytest.FixtureRequest) -> Iterator[Callable[..., Arena]]:
    """`arena(layer, user)`: a home, a workspace and what is beside them. The marker `own_start` is
    for attacks on the process of the agent itself and on how it is started."""
    preloaded = request.node.get_closest_marker("own_start") is None
    with ExitStack() as stack:

        def make(layer: str, user: str = "self") -> Arena:
            return stack.enter_context(make_arena(layer, user, preloaded=preloaded))

        yield make


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A server of the machine that nothing the agent runs should reach."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


@pytest.fixture
def mark() -> Iterator[str]:
    """Seconds that nothing else sleeps for."""
    seconds = f"1{time.time_ns() % 10**9:09d}"
    yield seconds
    for pid in processes_with(seconds):
        os.kill(pid, signal.SIGKILL)
