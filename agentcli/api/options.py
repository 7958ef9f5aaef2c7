"""How a program wants a session to be."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from agentcli.api.own_tools import OwnTool
from agentcli.events import Action, Event, Progress
from agentcli.settings import Settings

Images = Sequence[str | os.PathLike[str]]
"""Their files."""
Respond = Callable[[str], str | None]


class SessionOptions(TypedDict, total=False):
    """Each is as the person's own settings say unless it is given."""

    workspace: str | os.PathLike[str]
    """Folder to work in; the current one. Of a session that is there, its own."""
    model: str
    """`provider/model`, or as much of its name as fits only one."""
    permission_mode: Literal["ask", "auto-edit", "plan", "yolo"]
    """What runs unasked: see docs/safety.md."""
    allow: Sequence[str]
    """Rules for what runs unasked, such as `bash(npm test:*)` or the name of a tool."""
    deny: Sequence[str]
    """Rules for what never runs."""
    max_turns: int
    """Most replies of the model to one message."""
    max_budget_usd: float
    """Most that the whole session may cost."""
    max_time_s: float
    """Longest turn, in seconds of wall clock."""
    check: str
    """A command that must pass in the end; a failure goes back to the model."""
    output_schema: str | os.PathLike[str] | Mapping[str, Any]
    """JSON Schema that answers must fit, as a file or as what is in one."""
    settings: Settings | Mapping[str, Any]
    """Any other settings: an object, of which what was set counts, or values by dotted key. They go
    before those of files; other options go before them."""
    session_id: str
    """Go on with this session: its id, a unique beginning of that, or its name."""
    name: str
    """Of a new session."""
    instructions: str
    """For a new session: what the model is told of the conversation, after its system prompt."""
    initial_events: Sequence[Event | Mapping[str, Any]]
    """A new session begins with what was said and done in these, as objects or as JSON has them."""
    tools: Sequence[OwnTool]
    """More for the model to call: plain functions, see `tool`. They have to be given again when the
    session is opened again."""
    approve: Callable[[Action, str], bool | str]
    """Whether an action may run that is to be asked, given why it is; a text is no, and what the
    model is told of it. Without this, what is to be asked is not run."""
    fake_user_response_fn: Respond
    """What the person says to a message or a question of the agent; None: nothing more. A reply
    without tool calls then hands over to the person, instead of ending the task."""
    exit_on_message: bool
    """End at the first message that hands over to the person, whoever could answer."""
    on_event: Callable[[Event | Progress], None]
    """Told of all that happens, on the thread that works; one that raises is told no more."""
