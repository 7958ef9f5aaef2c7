"""What every part of the measurement shares: the model, a scratch folder, how the agent is run."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.model import Model, Report
from benchmarks.process import Run, environment, run

KEY = "sk-bench"
TASK = "Run true until you are done."
ANSWER = "Done.\n"


@dataclass(frozen=True)
class Protocol:
    """A provider's wire protocol, and what the agent may cost when it speaks that."""

    name: str
    model: str
    sdk: str
    """The package whose import the start is compared with."""
    start_factor: float
    memory_mb: float


PROTOCOLS = (
    Protocol("Chat Completions", "openai-chat/bench", "openai", 1.4, 95),
    Protocol("Responses", "openai/bench", "openai", 1.4, 95),
    Protocol("Messages", "anthropic/bench", "anthropic", 1.25, 120),
)


@dataclass(frozen=True)
class Measured:
    """A run as the machine saw it and as the model saw it."""

    run: Run
    report: Report

    @property
    def start_ms(self) -> float:
        """From spawn until the first request was there."""
        return 1000 * (self.report.received[0] - self.run.started)

    @property
    def exit_ms(self) -> float:
        """From the last reply's last byte until the process had ended."""
        return 1000 * (self.run.ended - self.report.sent[-1])

    @property
    def steps(self) -> int:
        return len(self.report.received) - 1

    @property
    def cpu_ms(self) -> float:
        """Of the whole tree, start included, for each step."""
        return 1000 * self.run.cpu_s / max(self.steps, 1)

    @property
    def gap_ms_per_mb(self) -> float:
        """How the gap grows with the request: a least-squares line through all steps."""
        sizes = [size / 1e6 for size in self.report.sizes[1:]]
        gaps = self.report.gaps_ms
        middle, mean = sum(sizes) / len(sizes), sum(gaps) / len(gaps)
        spread = sum((size - middle) ** 2 for size in sizes)
        both = sum((s - middle) * (g - mean) for s, g in zip(sizes, gaps, strict=False))
        return both / spread if spread else 0.0


@dataclass(frozen=True)
class Bench:
    """Runs things against the model; everything they write lands in `scratch`."""

    model: Model
    scratch: Path

    @property
    def agent(self) -> str:
        """The installed command. Raises FileNotFoundError when there is none."""
        beside = Path(sys.executable).with_name("agent")
        found = str(beside) if beside.exists() else shutil.which("agent")
        if not found:
            raise FileNotFoundError("there is no `agent` command: pip install -e .")
        return found

    @property
    def workspace(self) -> Path:
        folder = self.scratch / "workspace"
        folder.mkdir(exist_ok=True)
        return folder

    @property
    def home(self) -> Path:
        """The agent's own folder, with its sessions."""
        return self.scratch / "home"

    def plain(self, argv: Sequence[str]) -> Run:
        """A command that asks no model anything."""
        done = run(argv, env=self._environment(), cwd=self.workspace, memory=False)
        if done.code != 0:
            raise RuntimeError(f"{argv} ended with {done.code}:\n{done.err[-2000:]}")
        return done

    def talk(
        self,
        argv: Sequence[str],
        steps: int,
        *,
        keep: bool = False,
        last_command: str = "",
        timeout_s: float = 120.0,
        env: Mapping[str, str] | None = None,
    ) -> Measured:
        """A command that talks to the model over `steps` steps."""
        self.model.begin(steps, keep=keep, last_command=last_command)
        whole = self._environment() | dict(env or {})
        done = run(argv, env=whole, cwd=self.workspace, timeout_s=timeout_s, memory=steps > 0)
        report = self.model.collect()
        if len(report.received) != steps + 1:
            raise RuntimeError(
                f"{argv[0]} asked {len(report.received)} times in place of {steps + 1} "
                f"and ended with {done.code}:\n{done.err[-2000:]}"
            )
        return Measured(done, report)

    def work(
        self, model: str, steps: int, *, keep: bool = False, env: Mapping[str, str] | None = None
    ) -> Measured:
        """A task of `steps` steps given to the agent; its answer is checked."""
        argv = [self.agent, "run", *agent_options(model), TASK]
        measured = self.talk(argv, steps, keep=keep, timeout_s=60 + steps / 10, env=env)
        if measured.run.out != ANSWER or measured.run.code != 0:
            raise RuntimeError(f"agent answered {measured.run.out!r}, code {measured.run.code}")
        return measured

    def _environment(self) -> dict[str, str]:
        """Everything points at the model and at the scratch folder; proxies lead nowhere."""
        nowhere = "http://127.0.0.1:9"
        return environment(
            HOME=str(self.scratch),
            AGENT_HOME=str(self.home),
            OPENAI_API_KEY=KEY,
            ANTHROPIC_API_KEY=KEY,
            OPENAI_BASE_URL=f"{self.model.url}/v1",
            ANTHROPIC_BASE_URL=self.model.url,
            HTTP_PROXY=nowhere,
            HTTPS_PROXY=nowhere,
            http_proxy=nowhere,
            https_proxy=nowhere,
            NO_PROXY="127.0.0.1,localhost",
            no_proxy="127.0.0.1,localhost",
        )


def agent_options(model: str) -> list[str]:
    """A window that never slides and no limit on turns, so that every step does the same work."""
    settings = ("agent.max_turns=100000", "model.context_tokens=100000000")
    return ["-m", model, "-q", *(word for text in settings for word in ("--set", text))]
