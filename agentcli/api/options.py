"""Options of a session that a program opens."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from agentcli.api.function_tools import ProgramTool
from agentcli.events import Action, Event, Progress
from agentcli.settings import Settings

Images = Sequence[str | os.PathLike[str]]
"""Files of images."""
Respond = Callable[[str], str | None]


class SessionOptions(TypedDict, total=False):
    """Options that are not given are as in the user's own settings."""

    workspace: str | os.PathLike[str]
    """Folder to work in. Default: the current one; for an existing session, its own."""
    model: str
    """`provider/model`, or a part of its name that fits only one."""
    permission_mode: Literal["ask", "auto-edit", "plan", "yolo"]
    """What runs without asking: see docs/safety.md."""
    allow: Sequence[str]
    """Rules for what runs without asking, such as `bash(npm test:*)` or the name of a tool."""
    deny: Sequence[str]
    """Rules for what never runs."""
    max_turns: int
    """How many replies the model may give to one message."""
    max_budget_usd: float
    """What the whole session may cost at most."""
    max_time_s: float
    """How long a turn may take, in seconds of wall clock."""
    check: str
    """A command that must pass in the end; its failure is sent back to the model."""
    output_schema: str | os.PathLike[str] | Mapping[str, Any]
    """JSON Schema that answers must fit: a file, or its content."""
    settings: Settings | Mapping[str, Any]
    """Any other settings: an object, of which only what was set counts, or values by dotted key.
    They override those of files; other options override them."""
    session_id: str
    """Continue this session: its id, a unique beginning of it, or its name."""
    name: str
    """Name for a new session."""
    instructions: str
    """For a new session: text that follows the model's system prompt."""
    initial_events: Sequence[Event | Mapping[str, Any]]
    """For a new session: what was said and done before it, as event objects or as their JSON."""
    tools: Sequence[ProgramTool]
    """More tools for the model: plain functions, see `tool`. They must be given again when the
    session is opened again."""
    approve: Callable[[Action, str], bool | str]
    """Is called with an action that needs approval and the reason for that, and returns whether it
    may run; text is a no that the model is told. Without it, what needs approval is not run."""
    fake_user_response_fn: Respond
    """Answers a message or a question of the agent in the user's place; None: nothing more to
    say. With it, a reply without tool calls hands over to the user instead of ending the task."""
    exit_on_message: bool
    """End at the first message that hands over to the user, even if one could answer."""
    on_event: Callable[[Event | Progress], None]
    """Is called with all that happens, on the working thread; after it raises it is not called
    again."""
