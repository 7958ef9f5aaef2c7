"""What `agent run --record FILE` does beside the run."""

from __future__ import annotations

from pathlib import Path

from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.open_session import OpenSession
from agentcli.checkpoints.checkpointer import checkpoints_of
from agentcli.cli.complaints import print_error
from agentcli.cli.flags import Flags
from agentcli.cli.named_place import named_file
from agentcli.cli.replaying import record
from agentcli.errors import AgentError, UsageError
from agentcli.sessions.session import read_session


class RunRecorder:
    """Raises UsageError where no file can be written at `target`."""

    def __init__(self, target: Path, flags: Flags) -> None:
        self._target = named_file(target, "--record")
        if self._target.is_dir() or not self._target.parent.is_dir():
            raise UsageError(f"--record {target}: there can be no file", hint="name a new file")
        self._quiet = flags.quiet
        self._builder: AgentBuilder | None = None
        self._folder: Path | None = None
        self._start = ""

    def begin(self, builder: AgentBuilder, opened: OpenSession) -> None:
        """Keep the files as they are before anything is done."""
        self._builder, self._folder = builder, opened.session.folder
        store = checkpoints_of(self._folder, str(builder.workspace))
        self._start = store.take().tree

    def finish(self, code: int) -> int:
        """Write what there is of the session, however it ended. The exit code of the run, or 1
        where that was 0 and there is no recording."""
        if self._builder is None or self._folder is None:
            return code
        try:
            session = read_session(self._folder)
            record(self._builder, session, self._target, self._start, quiet=self._quiet)
        except AgentError as error:
            print_error(f"no recording: {error.message}", error.hint)
            return code or error.exit_code
        return code
