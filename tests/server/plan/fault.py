"""What a fault is, and the small tools that the tables of faults are written with."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..script import Altered, Call, Reply, Step
from ..wire import dumps

CHAT, RESPONSES, MESSAGES = "chat_completions", "responses", "anthropic_messages"
APIS = (CHAT, RESPONSES, MESSAGES)
DONE = "All done."
"""What the server answers once its fault is over, and what the run must end with."""
KEY = "sk-" + "test-0123456789abcdef"
"""What the run is let in with; nobody may read it anywhere."""
RETRIES = 1
"""How often a run that meets a fault may try again."""
SHORTENED = 4
"""How often a request that is too long is sent at most, shorter each time."""
HALF = Reply("half", [Call("write", {"path": "ran", "content": "naïve\n"})])
"""Must run whole or not at all."""


@dataclass(frozen=True)
class Scene:
    """Where a fault is played."""

    api: str
    streamed: bool
    elsewhere: str
    """Address of another server, which nothing may be sent to."""
    released: threading.Event
    """Set when the run is over."""

    @property
    def anthropic(self) -> bool:
        return self.api == MESSAGES


@dataclass(frozen=True)
class Completes:
    """The run ends with DONE after at most `requests` requests; `ran`: the call of HALF was run."""

    requests: int = 2
    ran: bool = False


@dataclass(frozen=True)
class Fails:
    """The run ends with an error of this stable reason, or of one of several (`a or b`), as
    servers differ in what else they send; `says` is a part of what people read."""

    reason: str
    exit_code: int = 4
    requests: int = 1
    says: str = ""


Expected: TypeAlias = Completes | Fails
Script: TypeAlias = Callable[[Scene], Sequence[Step]]


@dataclass(frozen=True)
class Fault:
    """`script` says what the server does. After it comes DONE where the run is to complete; where
    it is to fail, the last step is repeated."""

    script: Script
    expected: Expected
    apis: Collection[str] = APIS
    streamed: Collection[bool] = (True, False)
    providers: Collection[str] = ()
    """Whose servers do this; empty: any."""
    silence_s: float = 30.0
    """How long the run bears silence."""
    unreachable: bool = False
    """Nobody listens at the server's address."""


def mended(
    name: str, step: Callable[[Scene], Step], reason: str, **options: Any
) -> dict[str, Fault]:
    """A fault that another attempt mends, and the same fault for good."""
    failing = Fails(reason, requests=1 + RETRIES)
    lasting = Fault(lambda scene: [step(scene)], failing, **options)
    return {**passing(f"{name}, once", step, **options), f"{name}, always": lasting}


def passing(name: str, step: Callable[[Scene], Step], **options: Any) -> dict[str, Fault]:
    """A fault that another attempt mends."""
    return {name: Fault(lambda scene: [step(scene)], Completes(), **options)}


def final(name: str, step: Callable[[Scene], Step], expected: Fails, **options: Any) -> Any:
    """A fault that nothing mends: asked once, told."""
    return {name: Fault(lambda scene: [step(scene)], expected, **options)}


def taken(name: str, reply: Reply | Altered, *, ran: bool = True, **options: Any) -> Any:
    """An oddity that the run takes as it was meant. With `ran` the reply is a call, so that another
    request follows."""
    expected = Completes(2, ran=True) if ran else Completes(1)
    return {name: Fault(lambda scene: [reply], expected, **options)}


# --- changes to an answer -----------------------------------------------------------------------

Change: TypeAlias = Callable[[list[bytes]], list[bytes]]


def is_stream(chunks: Sequence[bytes]) -> bool:
    return not chunks[0].startswith(b"{")


def each(edit: Callable[[dict[str, Any]], Any]) -> Change:
    """Applies `edit` to each JSON object of the answer: the document, or every event's data."""

    def change(chunks: list[bytes]) -> list[bytes]:
        return [_edited(chunk, edit) for chunk in chunks]

    return change


def _edited(chunk: bytes, edit: Callable[[dict[str, Any]], Any]) -> bytes:
    head, mark, data = chunk.rpartition(b"data: ")
    if not data.startswith(b"{"):
        return chunk
    return head + mark + dumps(edit(json.loads(data))) + (b"\n\n" if mark else b"")


def put(**values: Any) -> Change:
    """Gives each field of one of these names, at any depth, the value given here. A function is
    given what there was."""

    def edit(value: Any) -> Any:
        if isinstance(value, list):
            return [edit(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {key: new(values[key], item) if key in values else edit(item)
                for key, item in value.items()}  # fmt: skip

    def new(wanted: Any, old: Any) -> Any:
        return wanted(old) if callable(wanted) else wanted

    return each(edit)


def drop(*names: str) -> Change:
    """Leaves out each field of one of these names."""

    def edit(value: Any) -> Any:
        if isinstance(value, list):
            return [edit(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {key: edit(item) for key, item in value.items() if key not in names}

    return each(edit)
