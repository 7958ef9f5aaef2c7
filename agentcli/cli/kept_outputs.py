"""Outputs of which the events of a session hold no more than the ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agentcli.files.private import read_private
from agentcli.shell.output_folder import DISK_BYTES


def kept_outputs(folder: Path) -> Callable[[str], str | None]:
    """What reads the whole of an output that the session in `folder` keeps, its secrets masked."""

    def read(name: str) -> str | None:
        from agentcli.cli.builders import redactor  # 300 ms, and few outputs are that long

        data = read_private(folder / "outputs" / Path(name).name, DISK_BYTES)
        return None if data is None else redactor()(data.decode("utf-8", "replace"))

    return read
