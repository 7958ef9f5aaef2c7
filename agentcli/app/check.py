"""A check of the user: one command that says by its exit code whether the files in a folder are
right. It runs in the same sandbox as a session's commands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentcli.app.containment import CHECK_FOLDER
from agentcli.errors import ConfigError, UsageError
from agentcli.events.observations import RequirementJudgedObservation
from agentcli.interrupts import shield
from agentcli.sandbox.selection import Sandbox
from agentcli.shell.shell import Shell
from agentcli.workspace.private import OutputFolder, remove_tree

LIMIT_S = 600.0
"""Default limit for one run."""
TAIL_CHARS = 4000
"""How much of the output to keep: nearly every test runner prints what matters at the end."""
_NO_COMMAND = (126, 127)


@dataclass(frozen=True)
class CheckResult:
    """`exit_code` None: it was stopped at the time limit. `tail` is the end of the output without
    control characters; secrets in it are not masked."""

    command: str
    exit_code: int | None
    duration_s: float
    tail: str = ""

    @property
    def passed(self) -> bool:
        return self.exit_code == 0

    @property
    def is_no_command(self) -> bool:
        """Whether the shell found no such command, or could not run it."""
        return self.exit_code in _NO_COMMAND

    def as_dict(self) -> dict[str, Any]:
        """Return the result for programs."""
        return {**asdict(self), "passed": self.passed}

    def as_event(self) -> RequirementJudgedObservation:
        """Return the event that records the result."""
        return RequirementJudgedObservation(
            requirement="check",
            met=self.passed,
            content=self.tail,
            command=self.command,
            exit_code=self.exit_code,
            duration_s=round(self.duration_s, 3),
        )

    @property
    def outcome(self) -> str:
        """The outcome in two or three words."""
        if self.passed:
            return "passed"
        if self.exit_code is None:
            return f"stopped after {self.duration_s:.0f} s"
        return f"failed (exit {self.exit_code})"


@dataclass(frozen=True)
class Check:
    """A command for bash. `environment` is the complete one, `sandbox` contains the command, and
    `limit_s` is how many seconds a run may take."""

    command: str
    sandbox: Sandbox
    environment: Mapping[str, str]
    limit_s: float = LIMIT_S

    def run(
        self, folder: Path, own: Path, on_output: Callable[[str], None] | None = None
    ) -> CheckResult:
        """Run the check in `folder`, on any thread; nothing of it outlives the call. `own` is a
        private folder that the command sees; it is left as it was. Raises UsageError if there is no
        command, ConfigError if it can't be started, TurnInterrupted."""
        scratch = own / CHECK_FOLDER
        outputs = scratch / "outputs"
        # A process that was killed may have left one.
        remove_tree(scratch)
        try:
            outputs.mkdir(mode=0o700, parents=True)
            shell = Shell(
                cwd=str(folder),
                env=self.environment,
                scratch=scratch,
                outputs=OutputFolder(outputs),
                sandbox=self.sandbox,
            )
            try:
                result = shell.run(self.command, timeout=self.limit_s, on_output=on_output)
            finally:
                with shield():
                    shell.close()
        except ValueError as error:
            raise UsageError(f"--check: {error}") from error
        except OSError as error:
            raise ConfigError(f"the check can't be started: {error}") from error
        finally:
            with shield():
                remove_tree(scratch)
        code = None if result.timed_out else result.exit_code
        return CheckResult(self.command, code, result.duration_s, _tail(result.output))


def _tail(output: str) -> str:
    """Return the end of the output, in whole lines if it has several."""
    if len(output) <= TAIL_CHARS:
        return output.rstrip()
    cut = output[-TAIL_CHARS:]
    first, _, rest = cut.partition("\n")
    return f"[…]\n{rest or first}".rstrip()
