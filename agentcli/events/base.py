"""What all events have in common, their JSON form and its versions.

A new field with a default, or a new kind of event, needs no new version: older readers keep what
they don't know unchanged. A change that older readers would misread does: add a function to
`UPGRADES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from agentcli.messages import Reply

Record = dict[str, Any]

UPGRADES: Sequence[Callable[[Record], Record]] = ()
"""`UPGRADES[n]` turns the JSON form of version n + 1 into that of version n + 2."""

FIRST_VERSION = 1
EVENT_VERSION = FIRST_VERSION + len(UPGRADES)


def version_of(record: Mapping[str, Any]) -> int:
    """Return the version of a stored event. Raises ValueError if there is no valid one."""
    version = record.get("schema_version", FIRST_VERSION)
    if type(version) is not int or version < FIRST_VERSION:
        raise ValueError(f"not an event: schema_version is {version!r}")
    return version


def upgraded(record: Record, upgrades: Sequence[Callable[[Record], Record]] = UPGRADES) -> Record:
    """Return `record` in the newest form; if its version is newer still, unchanged."""
    for upgrade in upgrades[version_of(record) - FIRST_VERSION :]:
        record = {**upgrade(record), "schema_version": version_of(record) + 1}
    return record


class Source(StrEnum):
    USER = "user"
    AGENT = "agent"
    ENVIRONMENT = "environment"


class Risk(IntEnum):
    UNKNOWN = -1
    LOW = 0
    MEDIUM = 1
    HIGH = 2


class Value(BaseModel):
    """A frozen value without extra fields. Validators are built on first use, as most runs need
    only a few of the classes."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class ToolCallMetadata(Value):
    """The tool call behind an action; `raw_arguments` is JSON text. If it had to be mended,
    `arguments_before` is what the model wrote. A call made in the terms of another program's tools
    is kept in our own, with the `written` ones, which are what the model sees again."""

    function_name: str
    tool_call_id: str
    raw_arguments: str
    arguments_before: str | None = None
    written_name: str | None = None
    written_arguments: str | None = None


class ReplyPart(Value):
    """The place of an event in its model reply: `index` of `total`, from 0."""

    id: str
    index: int
    total: int


class LLMMetrics(Value):
    """Cost of one reply: tokens, USD (None: price unknown), seconds. `part` says what the reply was
    for: main, condenser, title, …"""

    model: str
    part: str = "main"
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = None
    latency_s: float = 0.0
    time_to_first_token_s: float = 0.0

    @classmethod
    def of(cls, reply: Reply, part: str = "main") -> LLMMetrics:
        return cls(
            model=reply.model,
            part=part,
            **asdict(reply.usage),
            cost_usd=reply.cost_usd,
            latency_s=round(reply.latency_s, 4),
            time_to_first_token_s=round(reply.time_to_first_token_s, 4),
        )


class OpaqueReplyData(Value):
    """Reply data that only its `provider` understands, and that must be sent back to it."""

    provider: str
    items: tuple[dict[str, Any], ...]


class Event(Value):
    """An immutable record. The session that records it sets `id` and `timestamp`.

    `cause` is the id of the Action that an Observation answers; `timeout` is in seconds.
    """

    kind: ClassVar[str]
    """The value of `action` or `observation` in the JSON form."""

    id: int = -1
    timestamp: datetime = datetime.min.replace(tzinfo=UTC)
    source: Source = Source.ENVIRONMENT
    cause: int | None = None
    timeout: float | None = None
    llm_metrics: LLMMetrics | None = None
    tool_call_metadata: ToolCallMetadata | None = None
    reply: ReplyPart | None = None
    response_id: str | None = None
    provider_data: OpaqueReplyData | None = None
    schema_version: int = EVENT_VERSION

    @property
    def message(self) -> str:
        """Return one line for people."""
        return self.kind

    @property
    def begins_main_reply(self) -> bool:
        """Whether a reply of the main model begins with this event."""
        return self.llm_metrics is not None and self.llm_metrics.part == "main"


COMMON_FIELDS = frozenset(Event.model_fields)


ACTIONS: dict[str, type[Event]] = {}
OBSERVATIONS: dict[str, type[Event]] = {}
"""Every event class, by its `kind`."""


def _enter(table: dict[str, type[Event]], cls: type[Event], kind: str) -> None:
    cls.kind = kind
    if table.setdefault(kind, cls) is not cls:
        raise ValueError(f"two event classes are named {kind!r}")


class Action(Event):
    """An intent. A tool carries out the `runnable` ones, and an Observation answers them."""

    runnable: ClassVar[bool]
    tool: ClassVar[str]
    """The tool that carries it out, if its name differs from `kind`."""
    source: Source = Source.AGENT

    def __init_subclass__(cls, *, kind: str = "", tool: str = "", runnable: bool = False) -> None:
        super().__init_subclass__()
        if kind:
            _enter(ACTIONS, cls, kind)
            cls.tool, cls.runnable = tool, runnable


class Observation(Event):
    """What came of an Action, or something that happened."""

    content: str = ""

    def __init_subclass__(cls, *, kind: str = "") -> None:
        super().__init_subclass__()
        if kind:
            _enter(OBSERVATIONS, cls, kind)

    @property
    def message(self) -> str:
        return self.content.split("\n", 1)[0][:200] or self.kind


class OpaqueEvent(Event):
    """An event of a type unknown to this version: kept as it is, never interpreted."""

    kind: ClassVar[str] = "opaque"
    raw: dict[str, Any]

    @property
    def message(self) -> str:
        name = self.raw.get("action") or self.raw.get("observation") or "event"
        return f"{name} (from a newer version)"


def event_to_dict(event: Event) -> dict[str, Any]:
    """Return the JSON form: common fields at the top level, an action's own under `args`, an
    observation's under `extras`. Fields at their defaults are left out."""
    if isinstance(event, OpaqueEvent):
        return dict(event.raw)
    data = event.model_dump(mode="json", exclude_defaults=True)
    common = {name: data.pop(name) for name in list(data) if name in COMMON_FIELDS}
    out: dict[str, Any] = {
        "id": event.id,
        "timestamp": common.pop("timestamp", None) or event.timestamp.isoformat(),
        "source": event.source.value,
    }
    common.pop("id", None)
    common.pop("source", None)
    if isinstance(event, Action):
        out["action"] = event.kind
    else:
        out["observation"] = event.kind
        out["content"] = data.pop("content", "")
    out["message"] = event.message
    out.update(common)
    if data:
        out["args" if isinstance(event, Action) else "extras"] = data
    out["schema_version"] = event.schema_version
    return out


def event_from_dict(data: Mapping[str, Any]) -> Event:
    """Return the event that `event_to_dict` wrote; for an unknown type or a newer version, an
    OpaqueEvent.

    Raises ValueError if `data` is no event at all, or a damaged one of a known type.
    """
    fields = upgraded(dict(data))
    fields.pop("message", None)
    cls: type[Event] | None
    if "action" in fields:
        cls = ACTIONS.get(fields.pop("action"))
    else:
        cls = OBSERVATIONS.get(fields.pop("observation", ""))
    if not isinstance(fields.get("id"), int) or "timestamp" not in fields:
        raise ValueError("not an event: it has no id or no timestamp")
    if cls is None or version_of(fields) > EVENT_VERSION:
        return OpaqueEvent(id=fields["id"], timestamp=fields["timestamp"], raw=dict(data))
    fields.update(fields.pop("args", {}))
    fields.update(fields.pop("extras", {}))
    try:
        return cls.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"damaged {cls.kind} event: {where}: {first['msg']}") from error
