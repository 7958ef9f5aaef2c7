"""What can happen in a session."""

from agentcli.events import actions, observations  # noqa: F401 - registers them
from agentcli.events.base import (
    Action,
    Event,
    LLMMetrics,
    Observation,
    OpaqueEvent,
    OpaqueReplyData,
    ReplyPart,
    Risk,
    Source,
    ToolCallMetadata,
    event_from_dict,
    event_to_dict,
)
from agentcli.events.progress import Progress

__all__ = [
    "Action",
    "Event",
    "LLMMetrics",
    "Observation",
    "OpaqueEvent",
    "OpaqueReplyData",
    "Progress",
    "ReplyPart",
    "Risk",
    "Source",
    "ToolCallMetadata",
    "event_from_dict",
    "event_to_dict",
]
