"""Do a task. Piped input is added to it.

Examples:
  agent run "fix the failing test"
  git diff | agent run "review this" > review.txt
  agent run -m sonnet --approval plan "how would you split this module?"
  agent run --json --max-time 10m "fix the bug" < /dev/null
  agent run --check "python3 -m unittest" "fix the failing test"
  agent run --output-schema answer.schema.json "which functions have no tests?"
  agent run --tries 3 --check "make test" "fix the race in the queue"
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from agentcli.cli.flags import Flags, TryCount, TryModels, with_flags
from agentcli.cli.options import ContinueNewest, NewName, argument, option
from agentcli.errors import UsageError


def run_once(
    flags: Flags,
    task: Annotated[str | None, argument("TASK", "What to do; - takes it from stdin.")] = None,
    continue_newest: ContinueNewest = False,
    session: Annotated[
        str | None, option("--resume, -r SESSION", "Go on with this session.")
    ] = None,
    name: NewName = None,
    record: Annotated[
        Path | None, option("--record FILE", "Write a recording: see agent replay --verify.")
    ] = None,
    tries: TryCount = None,
    try_models: TryModels = None,
) -> int:
    # Help and wrong flags don't need the modules of sessions, which take 0.3 s to load.
    from agentcli.cli.running.work import ContinuedSession, NewSession, work

    models = try_models or []
    if session is not None or continue_newest:
        if name is not None:
            raise UsageError(
                "--name is for a new session",
                hint="to name an existing session: agent sessions rename",
            )
        if record is not None:
            raise UsageError(
                "--record is for a new session",
                hint="to record an existing session: agent replay --save FILE",
            )
        from agentcli.cli.sessions.selector import SessionSelector

        stored = ContinuedSession(SessionSelector(session, newest=continue_newest), task, flags)
        if tries is None and not models:
            return work(flags, stored)
        from agentcli.cli.run_attempts import AttemptOptions, run_attempts

        options = AttemptOptions(tries or len(models), models)
        return run_attempts(flags, stored, options, stored.record)
    if tries is not None or models:
        from agentcli.cli.run_attempts import AttemptOptions, run_attempts

        if record is not None:
            raise UsageError("--record is for one session, not for several tries")
        options = AttemptOptions(tries or len(models), models, name)
        return run_attempts(flags, NewSession(task, flags), options)
    if record is None:
        return work(flags, NewSession(task, flags, name))
    from agentcli.cli.replaying import RunRecorder

    recorder = RunRecorder(record, flags)
    return recorder.finish(work(flags, NewSession(task, flags, name, recorder.begin)))


COMMAND = with_flags(run_once)
