"""The part of `agent run --record FILE` that makes the recording."""

from __future__ import annotations

from pathlib import Path

from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.open_session import OpenSession
from agentcli.checkpoints.checkpointer import checkpoints_of
from agentcli.cli.error_reporting import print_error
from agentcli.cli.flags import Flags
from agentcli.cli.replaying.replay import record
from agentcli.cli.user_paths import named_file
from agentcli.errors import AgentError, UsageError
from agentcli.sessions.session import read_session


class RunRecorder:
    """Records a run to the file `target`. Raises UsageError if no file can be written there."""

    def __init__(self, target: Path, flags: Flags) -> None:
        self._target = named_file(target, "--record")
        if self._target.is_dir() or not self._target.parent.is_dir():
            raise UsageError(
                f"--record {target}: a file can't be created there", hint="name a new file"
            )
        self._quiet = flags.quiet
        self._builder: AgentBuilder | None = None
        self._folder: Path | None = None
        self._start = ""

    def begin(self, builder: AgentBuilder, opened: OpenSession) -> None:
        """Take a snapshot of the files before any work begins."""
        self._builder, self._folder = builder, opened.session.folder
        store = checkpoints_of(self._folder, str(builder.workspace))
        self._start = store.take().tree

    def finish(self, code: int) -> int:
        """Write the recording of the session, however it ended. Return the exit code of the run or,
        if that was 0 and the recording failed, that of the failure."""
        if self._builder is None or self._folder is None:
            return code
        try:
            session = read_session(self._folder)
            record(self._builder, session, self._target, self._start, quiet=self._quiet)
        except AgentError as error:
            print_error(f"no recording: {error.message}", error.hint)
            return code or error.exit_code
        return code
