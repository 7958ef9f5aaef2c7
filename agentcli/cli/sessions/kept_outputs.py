"""Full outputs, for events of a session that hold only the beginning and the end of theirs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agentcli.ui.text import say_note
from agentcli.workspace.output_folder import DISK_BYTES
from agentcli.workspace.private import read_private


def kept_outputs(folder: Path) -> Callable[[str], str | None]:
    """Return a function that reads a full output of the session in `folder`, with secrets masked. A
    missing one is reported on stderr: the session may have worked on another machine."""

    def read(name: str) -> str | None:
        from agentcli.cli.builders import redactor  # 300 ms, and few outputs are that long

        data = read_private(folder / "outputs" / Path(name).name, DISK_BYTES)
        if data is None:
            say_note(f"{folder / 'outputs' / name} is not here; its ends are shown")
            return None
        masked: str = redactor()(data.decode("utf-8", "replace"))
        return masked

    return read
