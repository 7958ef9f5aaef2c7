"""A Ray cluster whose machines are each on their own loopback address."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

OBJECTS = 80_000_000
"""In bytes; the least that Ray accepts."""


class RayCluster:
    """A head that takes no tasks, and a machine for each number in `cpus`."""

    def __init__(self, environ: Mapping[str, str], cpus: tuple[int, ...]) -> None:
        self._environ = {**environ, "RAY_USAGE_STATS_ENABLED": "0"}
        self._cpus = cpus
        # The paths of its sockets have to be short.
        self._folder = Path(tempfile.mkdtemp(prefix="ray-"))
        with socket.socket() as free:
            free.bind(("127.0.0.2", 0))
            self.address = f"127.0.0.2:{free.getsockname()[1]}"
        self.machines: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        try:
            port = self.address.partition(":")[2]
            head = ("--head", f"--port={port}", "--include-dashboard=false")
            self._start(*head, f"--temp-dir={self._folder}", cpus=0)
            for cpus in self._cpus:
                self._start(f"--address={self.address}", cpus=cpus)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number in reversed(range(len(self.machines))):
            self.kill(number)
        shutil.rmtree(self._folder, ignore_errors=True)

    def kill(self, number: int) -> None:
        """Kill all processes of a machine, as a power failure would; 0 is the head."""
        machine = self.machines[number]
        for pid in family(machine.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        machine.wait()
        if machine.stdout is not None:
            machine.stdout.close()

    def _start(self, *arguments: str, cpus: int) -> None:
        own = f"127.0.0.{len(self.machines) + 2}"
        machine = subprocess.Popen(
            [
                *(sys.executable, "-m", "ray.scripts.scripts", "start", "--block"),
                *(f"--node-ip-address={own}", f"--num-cpus={cpus}", "--disable-usage-stats"),
                *(f"--object-store-memory={OBJECTS}", *arguments),
            ],
            env=self._environ,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.machines.append(machine)
        assert machine.stdout is not None
        said = []
        for line in machine.stdout:
            said.append(line)
            if "Ray runtime started" in line:
                return
        raise AssertionError(f"a machine did not start: {''.join(said)}")


def family(pid: int) -> list[int]:
    """Return the process and all its descendants."""
    found = [pid]
    for each in found:
        for thread in Path(f"/proc/{each}/task").glob("*/children"):
            with suppress(OSError):
                found += [int(child) for child in thread.read_text().split()]
    return found
