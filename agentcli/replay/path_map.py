"""The names of a session's folders and files in a copy of it, and back."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentcli.events import Action, Observation
from agentcli.events.base import COMMON_FIELDS
from agentcli.events.observations import CmdOutputObservation


class PathMap:
    """Maps paths of a session to its copy and back. `places` are pairs of a folder's path in the
    session and in the copy. If several paths lead to one folder, the first is the way back."""

    def __init__(self, places: Sequence[tuple[str, str]]) -> None:
        self._places = [(_as_folder(there), here) for there, here in places]
        self._back: dict[str, str] = {}
        for there, here in places:
            self._back.setdefault(here, there)
        self._aliases = [
            (there, self._back[here]) for there, here in places if self._back[here] != there
        ]
        self._outputs: dict[str, str] = {}
        """The names of files with kept outputs: in the session, then in the copy."""

    def recorded_names(self) -> list[tuple[str, str]]:
        """Return pairs of a name in the copy and the session's name for the same."""
        return [*self._back.items(), *((now, then) for then, now in self._outputs.items())]

    def aliases(self) -> list[tuple[str, str]]:
        """Return pairs of another name that the session had for a folder and the one in
        `recorded_names`: the log of a fork has the original's folder too."""
        return self._aliases

    def learn(self, recorded: Observation, now: Observation) -> None:
        """Note the name of the file that keeps a command's output, in both runs."""
        if isinstance(recorded, CmdOutputObservation) and isinstance(now, CmdOutputObservation):
            then, here = recorded.metadata.full_output_path, now.metadata.full_output_path
            if then and here:
                self._outputs[Path(then).name] = Path(here).name

    def in_copy(self, action: Action) -> Action:
        """Return `action` with the paths of the copy."""
        call = action.tool_call_metadata
        assert call is not None
        try:
            arguments = json.loads(call.raw_arguments or "{}")
        except (ValueError, RecursionError):
            return action
        mapped = self.mapped(arguments)
        if mapped == arguments:
            return action
        own = type(action).model_fields.keys() - COMMON_FIELDS
        fields = {name: self.mapped(getattr(action, name)) for name in own}
        metadata = call.model_copy(update={"raw_arguments": json.dumps(mapped)})
        return action.model_copy(update={"tool_call_metadata": metadata, **fields})

    def mapped(self, value: Any) -> Any:
        """Return a JSON value with the paths of the copy, at any depth."""
        if isinstance(value, str):
            for pattern, here in self._places:
                value = here.join(pattern.split(value))
            for then, now in self._outputs.items():
                value = value.replace(then, now)
            return value
        if isinstance(value, dict):
            return {key: self.mapped(item) for key, item in value.items()}
        return [self.mapped(item) for item in value] if isinstance(value, list) else value


def _as_folder(path: str) -> re.Pattern[str]:
    """Match the path of a folder, alone or as the beginning of a path in it."""
    return re.compile(rf"(?<![\w.-]){re.escape(path)}(?![\w-]|\.\w)")
