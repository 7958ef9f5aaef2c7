"""The results file: at most one result for each task, on disk as soon as it is known."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agentcli.batch.task import Result
from agentcli.errors import SessionError, os_error_text
from agentcli.workspace.private import replace_durably, sync_names


class Ledger:
    """The results of one batch, of all its starts, by task. The caller holds the batch's lock."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises SessionError that names the line if it is damaged."""
        self._path = path
        self.results: dict[str, Result] = {}
        self._read()

    def add(self, result: Result) -> None:
        """Record a result; it is on disk when this returns. Raises SessionError."""
        if result.id in self.results:
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            is_new = not self._path.exists()
            with open(os.open(self._path, flags, 0o600), "ab") as file:
                file.write(_line(result.model_dump(mode="json")))
                file.flush()
                os.fsync(file.fileno())
            if is_new:
                sync_names(self._path.parent)
        except OSError as error:
            told = f"{self._path} can't be written: {os_error_text(error)}"
            raise SessionError(told, hint="fix that, then run the same command again") from error
        self.results[result.id] = result

    def forget(self, task_ids: Iterable[str]) -> None:
        """Remove the results of tasks that are to be done again. Raises SessionError."""
        gone = set(task_ids) & self.results.keys()
        if gone:
            kept = {name: each for name, each in self.results.items() if name not in gone}
            _rewrite(self._path, [each.model_dump(mode="json") for each in kept.values()])
            self.results = kept

    def _read(self) -> None:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise SessionError(f"{self._path} can't be read: {os_error_text(error)}") from error
        *lines, torn = data.split(b"\n")
        for number, line in enumerate(lines, 1):
            try:
                result = Result.model_validate(json.loads(line))
            except (ValueError, ValidationError) as error:
                raise SessionError(
                    f"{self._path}:{number}: this line is not a result", hint="remove it"
                ) from error
            self.results.setdefault(result.id, result)
        if torn:
            # A process was killed while it wrote this line; its task is finished again.
            os.truncate(self._path, len(data) - len(torn))


def write_predictions(path: Path, results: Iterable[Result]) -> None:
    """Write the patches as SWE-bench takes predictions, one a line. Raises SessionError."""
    _rewrite(
        path,
        [
            {
                "instance_id": result.id,
                "model_name_or_path": result.model or "agent",
                "model_patch": result.patch,
            }
            for result in results
        ],
    )


def _rewrite(path: Path, values: Iterable[Mapping[str, Any]]) -> None:
    try:
        replace_durably(path, b"".join(map(_line, values)))
    except OSError as error:
        raise SessionError(f"{path} can't be written: {os_error_text(error)}") from error


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"
