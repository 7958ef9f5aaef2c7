"""One event of each class with every field filled in, always the same."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from agentcli.events import Event, event_to_dict
from agentcli.events.base import ACTIONS, OBSERVATIONS

CLASSES: list[type[Event]] = [*ACTIONS.values(), *OBSERVATIONS.values()]
_MOMENT = datetime(2026, 11, 1, 12, 30, 59, 250_000, UTC)
_BY_TYPE = {str: "text é", int: 3, float: 1.5, bool: True, datetime: _MOMENT}


def sample(cls: type[BaseModel]) -> Any:
    hints = get_type_hints(cls)
    given = {"schema_version": 1} if "schema_version" in cls.model_fields else {}
    return cls(**{name: _value(hints[name]) for name in cls.model_fields} | given)


def _value(hint: Any) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return {"any": [1, None]}
    if origin in (Union, UnionType):
        return _value(next(argument for argument in arguments if argument is not type(None)))
    if origin is Literal:
        return arguments[-1]
    if origin is tuple:
        each = arguments[:1] if arguments[-1] is Ellipsis else arguments
        return tuple(_value(argument) for argument in each)
    if origin is dict:
        return {"name": _value(arguments[1])}
    if issubclass(hint, BaseModel):
        return sample(hint)
    return _BY_TYPE[hint] if hint in _BY_TYPE else list(hint)[-1]


if __name__ == "__main__":
    # What the fixture of the newest version must hold: python -m tests.events.samples > FIXTURE
    for cls in CLASSES:
        print(json.dumps(event_to_dict(sample(cls)), ensure_ascii=False))
