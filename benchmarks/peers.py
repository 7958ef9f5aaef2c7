"""Other agents given the same steps by the same model, where they are installed.

`--peers DIR` names a folder below which `codex` or `pi` (npm) or `mini` (a virtual environment with
mini-swe-agent) can be found. Each gets a home of its own in the scratch folder, and proxies that
lead nowhere: what it asks of other hosts fails at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.bench import KEY, TASK, Bench
from benchmarks.report import Figure
from benchmarks.steps import describe

STEPS = 50
_TIMEOUT_S = 120.0
_SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


@dataclass(frozen=True)
class Command:
    """How a peer is run."""

    argv: Sequence[str]
    env: dict[str, str] = field(default_factory=dict)
    last_command: str = ""


@dataclass(frozen=True)
class Peer:
    """Another agent: where its program may be below the folder, and how to run it."""

    name: str
    patterns: tuple[str, ...]
    command: Callable[[str, Bench, Path], Command]

    def program(self, folder: Path) -> str | None:
        """The first file that fits."""
        for pattern in self.patterns:
            for depth in ("", "*/"):
                if found := sorted(folder.glob(depth + pattern)):
                    return str(found[0])
        return None


def measure(bench: Bench, folder: Path | None, repeats: int) -> tuple[list[Figure], list[str]]:
    """The figures of those that work, and why others were left out."""
    figures: list[Figure] = []
    left_out: list[str] = []
    if folder is None:
        return figures, ["other agents: no --peers folder was named"]
    for peer in PEERS:
        program = peer.program(folder.absolute())
        if program is None:
            left_out.append(f"{peer.name}: not found in the folder of peers")
            continue
        try:
            figures += _measure(bench, peer, program, repeats)
        except (RuntimeError, TimeoutError, OSError) as error:
            left_out.append(f"{peer.name}: {error}")
    return figures, left_out


def _measure(bench: Bench, peer: Peer, program: str, repeats: int) -> list[Figure]:
    """The first run, in which files come from the disk, does not count."""
    home = bench.scratch / peer.patterns[0].rpartition("/")[2]
    home.mkdir(exist_ok=True)
    command = peer.command(program, bench, home)
    runs = [
        bench.talk(
            command.argv,
            STEPS,
            last_command=command.last_command,
            timeout_s=_TIMEOUT_S,
            env={"HOME": str(home), **command.env},
        )
        for _ in range(repeats + 1)
    ]
    return describe(f"{peer.name}, {STEPS} steps", runs[1:])


def _codex(program: str, bench: Bench, home: Path) -> Command:
    provider = {"name": "bench", "base_url": f"{bench.model.url}/v1", "env_key": "OPENAI_API_KEY"}
    settings = {f"model_providers.bench.{key}": value for key, value in provider.items()}
    settings |= {"model_provider": "bench", "model_providers.bench.wire_api": "responses"}
    options = [word for key, value in settings.items() for word in ("-c", f'{key}="{value}"')]
    flags = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    return Command(
        [program, "exec", *flags, *options, "-m", "gpt-5-codex", TASK], {"CODEX_HOME": str(home)}
    )


def _pi(program: str, bench: Bench, home: Path) -> Command:
    provider = {
        "baseUrl": f"{bench.model.url}/v1",
        "api": "openai-completions",
        "apiKey": KEY,
        "models": [{"id": "bench", "contextWindow": 1_000_000}],
    }
    (home / "models.json").write_text(json.dumps({"providers": {"bench": provider}}))
    env = {"PI_CODING_AGENT_DIR": str(home), "PI_OFFLINE": "1", "PI_TELEMETRY": "0"}
    return Command([program, "-p", "--provider", "bench", "--model", "bench", TASK], env)


def _mini(program: str, bench: Bench, home: Path) -> Command:
    settings = ["mini.yaml", f"model.model_kwargs.api_base={bench.model.url}/v1"]
    options = [word for text in settings for word in ("-c", text)]
    options += ["-m", "openai/bench", "-l", "0", "-o", str(home / "trajectory.json")]
    env = {
        "MSWEA_GLOBAL_CONFIG_DIR": str(home),
        "MSWEA_CONFIGURED": "true",
        "MSWEA_COST_TRACKING": "ignore_errors",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    return Command([program, "-y", "--exit-immediately", *options, "-t", TASK], env, _SUBMIT)


PEERS = (
    Peer(
        "Codex",
        ("node_modules/@openai/codex*/vendor/*/bin/codex", "node_modules/.bin/codex"),
        _codex,
    ),
    Peer("pi", ("node_modules/.bin/pi",), _pi),
    Peer("mini-swe-agent", ("bin/mini",), _mini),
)
