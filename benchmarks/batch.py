"""How much longer many tasks take than their own work, and what a worker takes of memory."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from benchmarks.bench import Bench
from benchmarks.process import environment
from benchmarks.report import Figure

_WORKERS = 2
_RATIO, _WORKER_MB = 1.15, 100.0
_ALONE = 6
_PACE = "providers.scripted.extra_body={ words_per_second = 5 }"
"""A second of thinking, then the words of a reply: so long does a quick model take."""
_LOOK_S = 0.2


@dataclass(frozen=True)
class _Batch:
    """`each_s`: how long the tasks took, one by one."""

    wall_s: float
    each_s: Sequence[float]
    worker_mb: float


def measure(bench: Bench, *, quick: bool) -> list[Figure]:
    """A few tasks, one at a time, say what one takes by itself; then many, two at once."""
    count = 20 if quick else 200
    alone = _run(bench, "alone", _ALONE, 1)
    many = _run(bench, "many", count, _WORKERS)
    ideal_s = count * mean(alone.each_s) / _WORKERS
    part = f"Batch, {count} tasks, {_WORKERS} workers"
    return [
        Figure(part, "one task by itself", mean(alone.each_s), "s"),
        Figure(part, "whole batch", many.wall_s, "s"),
        Figure(part, "whole batch, over the ideal", many.wall_s / ideal_s, "times", _RATIO),
        Figure(part, "peak memory of a worker", many.worker_mb, "MB", _WORKER_MB),
    ]


def _run(bench: Bench, name: str, count: int, workers: int) -> _Batch:
    folder = bench.scratch / f"batch-{name}"
    (folder / "source").mkdir(parents=True)
    (folder / "source/module.py").write_text("x = 1\n" * 200)
    script = folder / "script.jsonl"
    script.write_text("".join(json.dumps(reply) + "\n" for reply in _replies()))
    tasks = [{"id": f"t{n}", "prompt": "Do it.", "workspace": "source"} for n in range(count)]
    (folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
    words = [bench.agent, "batch", "tasks.jsonl", "--out", "out", "--workers", str(workers)]
    words += ["-q", "--json", "-m", f"scripted/{script}", "--set", _PACE]
    wall_s, worker_mb = _watched(words, folder, environment(AGENT_HOME=str(bench.home)))
    results = [json.loads(line) for line in (folder / "out/results.jsonl").open()]
    if [result["status"] for result in results] != ["finished"] * count:
        raise RuntimeError(f"the batch in {folder} did not finish")
    return _Batch(wall_s, [result["duration_s"] for result in results], worker_mb)


def _watched(words: Sequence[str], folder: Path, env: dict[str, str]) -> tuple[float, float]:
    """Its wall clock, and the most that one of its workers held."""
    began, peak = time.monotonic(), 0.0
    null = subprocess.DEVNULL
    with subprocess.Popen(words, cwd=folder, env=env, stdin=null, stdout=null) as process:
        while process.poll() is None:
            peak = max([peak, *map(_peak_mb, _children(process.pid))])
            time.sleep(_LOOK_S)
    return time.monotonic() - began, peak


def _children(pid: int) -> list[int]:
    try:
        return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _peak_mb(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def _replies() -> list[dict[str, object]]:
    """A command, and the answer."""
    call = {"name": "bash", "arguments": json.dumps({"command": "echo y = 2 >> module.py"})}
    calls = [{"id": "call_1", "type": "function", "function": call}]
    return [
        _reply({"content": "I add a line to the module.", "tool_calls": calls}, "tool_calls"),
        _reply({"content": "The module has the line now."}, "stop"),
    ]


def _reply(message: dict[str, object], finish: str) -> dict[str, object]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1790000000,
        "model": "scripted",
        "choices": [choice],
        "usage": {"prompt_tokens": 2000, "completion_tokens": 30, "total_tokens": 2030},
    }
