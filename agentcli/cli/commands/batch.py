"""Do many tasks, each in a copy of its own.

TASKS is a file with one task per line as JSON, or a list as YAML. A task has an id, a prompt, and a
workspace (a folder) or a repo and ref (a git repository); a model, limits and a check are optional.
Results are added to DIR/results.jsonl as they come in. When the command is run again, it skips
tasks that have a result and continues interrupted ones where they stopped.

Examples:
  agent batch tasks.jsonl --out results --workers 4
  agent batch tasks.yaml --out results --max-budget-usd 20 -m sonnet
  agent batch swe.jsonl --out results --swe-bench predictions.jsonl
  agent batch swe.jsonl --out /shared/results --ray auto
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from agentcli.cli.flags import Flags, with_flags
from agentcli.cli.options import argument, option

_FLAGS = (
    *("model", "effort", "approval", "yolo", "allow", "deny", "no_sandbox", "share_tmp"),
    *("max_turns", "max_time", "no_summary", "assignments", "quiet"),
)
"""The shared flags that apply to each task."""


def batch(
    flags: Flags,
    tasks: Annotated[Path, argument("TASKS", "File of the tasks.")],
    out: Annotated[Path, option("--out DIR", "Folder for results and copies.")],
    workers: Annotated[
        int | None,
        option(
            "--workers N",
            "Tasks at once; 1 here, on a cluster as many as it has CPUs.",
            min=1,
            max=100_000,
        ),
    ] = None,
    ray: Annotated[
        str | None, option("--ray HOST:PORT", "Do them on this Ray cluster; or auto.")
    ] = None,
    max_budget_usd: Annotated[
        float | None,
        option(
            "--max-budget-usd USD",
            "Most that all of them may cost together; then exit 6.",
            min=0.0001,
        ),
    ] = None,
    swe_bench: Annotated[
        Path | None, option("--swe-bench FILE", "Write predictions for SWE-bench.")
    ] = None,
    retry_errors: Annotated[
        bool, option("--retry-errors", "Go on with tasks that came to an error.")
    ] = False,
    as_json: Annotated[bool, option("--json", "The summary for programs.")] = False,
) -> int:
    # Help and wrong flags don't need the modules of sessions, which take 0.3 s to load.
    from agentcli.batch.batch import BatchRequest
    from agentcli.cli.batch_progress import run
    from agentcli.cli.builders import given_settings

    values = given_settings(flags)
    request = BatchRequest(
        tasks, out, workers, values, max_budget_usd, swe_bench, retry_errors, ray
    )
    return run(request, quiet=flags.quiet, as_json=as_json)


COMMAND = with_flags(batch, _FLAGS)
