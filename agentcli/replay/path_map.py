"""What folders and files are called in a copy of a session."""

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
    """`places` are folders as the session called them, with what they are in the copy."""

    def __init__(self, places: Sequence[tuple[str, str]]) -> None:
        self._places = [(_as_folder(there), here) for there, here in places]
        self._back: dict[str, str] = {}
        for there, here in places:
            self._back.setdefault(here, there)
        self._aliases = [
            (there, self._back[here]) for there, here in places if self._back[here] != there
        ]
        self._outputs: dict[str, str] = {}
        """What files that keep outputs are called now, by what they were called then."""

    def recorded_names(self) -> list[tuple[str, str]]:
        """Return the names in the copy, with what the session called the same."""
        return [*self._back.items(), *((now, then) for then, now in self._outputs.items())]

    def aliases(self) -> list[tuple[str, str]]:
        """Return other names that the session had for a folder, with the one that `back` gives it:
        the log of a fork has the folder of the original too."""
        return self._aliases

    def learn(self, recorded: Observation, now: Observation) -> None:
        """Of the files that keep what a command put out."""
        if isinstance(recorded, CmdOutputObservation) and isinstance(now, CmdOutputObservation):
            then, here = recorded.metadata.full_output_path, now.metadata.full_output_path
            if then and here:
                self._outputs[Path(then).name] = Path(here).name

    def in_copy(self, action: Action) -> Action:
        """`action` on what is in the copy."""
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
        """A value of JSON with the names of the copy, at any depth."""
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
    """Matches the path of a folder, by itself or with something in it."""
    return re.compile(rf"(?<![\w.-]){re.escape(path)}(?![\w-]|\.\w)")
