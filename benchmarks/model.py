"""The scripted model as a process of its own, seen from the measuring side."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any

from benchmarks import process

_REPOSITORY = Path(__file__).resolve().parent.parent
_REPORT_S = 120


@dataclass(frozen=True)
class Report:
    """What the model saw of one run."""

    received: list[float]
    sent: list[float]
    sizes: list[int]
    connections: int
    others: int
    first: dict[str, Any]
    prefix_breaks: list[str] | None

    @property
    def gaps_ms(self) -> list[float]:
        """From each answer's last byte to the next request's last byte."""
        pairs = zip(self.sent, self.received[1:], strict=False)
        return [1000 * (received - sent) for sent, received in pairs]

    def gap_around(self, step: int, width: int = 20) -> float:
        """Median gap of the steps around `step`, in milliseconds."""
        gaps = self.gaps_ms
        near = gaps[max(0, step - width) : step + width] or gaps[-width:]
        return median(near) if near else 0.0

    @property
    def fixed_bytes(self) -> int:
        """System text and tools of the first request, as they are sent."""
        body = self.first
        parts = [body.get("system"), body.get("instructions"), body.get("tools")]
        turns = body.get("messages") or body.get("input") or []
        parts += [turn["content"] for turn in turns if turn.get("role") in ("system", "developer")]
        return sum(len(_compact(part)) for part in parts if part is not None)


class Model:
    """A context manager; `begin` says what the next run is answered, `collect` what it asked."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.server"],
            cwd=_REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        process.keep(self._process.pid)
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"

    def __enter__(self) -> Model:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def begin(self, steps: int = 0, *, keep: bool = False, last_command: str = "") -> None:
        """Answer the next run with `steps` calls of `true`, then with the end."""
        self._exchange({"steps": steps, "keep": keep, "last_command": last_command})

    def collect(self) -> Report:
        """What was asked since `begin`."""
        data = self._exchange({})
        seen = data["seen"]
        return Report(
            received=[one["received"] for one in seen],
            sent=[one["sent"] for one in seen if one["sent"]],
            sizes=[one["size"] for one in seen],
            connections=data["connections"],
            others=data["others"],
            first=data["first"] or {},
            prefix_breaks=data["prefix_breaks"],
        )

    def _exchange(self, following: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(
            f"{self.url}/records",
            data=json.dumps(following).encode(),
            headers={"content-type": "application/json"},
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=_REPORT_S) as answer:
            report: dict[str, Any] = json.load(answer)
        return report


def _compact(value: object) -> bytes:
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return text.encode()
