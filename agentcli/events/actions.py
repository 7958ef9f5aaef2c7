"""Every Action: what a user, the agent or the environment may want done."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any, Literal, TypeGuard

from agentcli.events.base import Action, Event, Risk, Source


def _first_line(text: str, limit: int = 160) -> str:
    line = text.strip().split("\n", 1)[0]
    return line if len(line) <= limit else line[: limit - 1] + "…"


class SystemMessageAction(Action, kind="system"):
    """The system text and tool schemas of a session; every later request sends them again."""

    content: str
    tools: tuple[dict[str, Any], ...] = ()
    agent_class: str = "CodeAgent"

    @property
    def message(self) -> str:
        return f"system prompt, {len(self.tools)} tools"


SITUATION = "situation"
"""The `nudge` of a message that says where the session is now; the next one replaces it."""
NOTES_REMINDER = "notes"
"""The `nudge` of the reminder to take notes before a condensation."""


class MessageAction(Action, kind="message"):
    """A message. If the user sends it while the agent works, `delivery` says when it reaches the
    model: at the next step (steer) or after the turn (queue)."""

    content: str
    image_urls: tuple[str, ...] = ()
    file_urls: tuple[str, ...] = ()
    wait_for_response: bool = False
    security_risk: Risk = Risk.UNKNOWN
    delivery: Literal["steer", "queue"] | None = None
    inbox_id: str | None = None
    """The id in the inbox of a message that came from another terminal."""
    delegated: str = ""
    """For a task from another session: which delegation of which session it is."""
    nudge: str | None = None
    """For a message that holds for a while only: the rule that found the model stuck, SITUATION, or
    what else it is."""
    reasoning: str = ""

    @property
    def message(self) -> str:
        return _first_line(self.content)


def is_user_message(event: Event) -> TypeGuard[MessageAction]:
    """Return whether the user said something."""
    return isinstance(event, MessageAction) and event.source is Source.USER


class CmdRunAction(Action, kind="run", tool="bash", runnable=True):
    """A shell command. `is_input` marks text for a command that waits on its standard input. With
    `job`, `command` is what to do with that background job: status or stop. `network` and
    `unsandboxed` ask for more than the sandbox gives; `reason` says why."""

    command: str
    cwd: str | None = None
    is_input: bool = False
    background: bool = False
    job: str | None = None
    restart: bool = False
    network: bool = False
    unsandboxed: bool = False
    reason: str = ""
    security_risk: Risk = Risk.UNKNOWN

    @property
    def message(self) -> str:
        if self.job is not None:
            return f"job {self.job}: {self.command}"
        return f"$ {_first_line(self.command)}"


class IPythonRunCellAction(Action, kind="run_ipython", tool="python", runnable=True):
    code: str
    security_risk: Risk = Risk.UNKNOWN

    @property
    def message(self) -> str:
        return f"python: {_first_line(self.code)}"


class FileReadAction(Action, kind="read", runnable=True):
    """Reads lines `start` to `end`, from 1, inclusive; `end` None: as far as limits allow."""

    path: str
    start: int = 1
    end: int | None = None

    @property
    def message(self) -> str:
        lines = f":{self.start}-{self.end or ''}" if self.start != 1 or self.end else ""
        return f"read {self.path}{lines}"


class FileWriteAction(Action, kind="write", runnable=True):
    path: str
    content: str
    encoding: str | None = None

    @property
    def message(self) -> str:
        return f"write {self.path}"


class FileEditAction(Action, kind="edit", runnable=True):
    """`insert_line` is the line after which `new_str` goes; 0 is the top of the file. `edits` are
    further replacements, each with old_str, new_str and replace_all."""

    path: str
    command: Literal["str_replace", "insert", "create", "undo_edit", "llm_edit"] = "str_replace"
    old_str: str | None = None
    new_str: str | None = None
    insert_line: int | None = None
    replace_all: bool = False
    edits: tuple[dict[str, Any], ...] = ()
    start: int | None = None
    end: int | None = None
    content: str | None = None
    encoding: str | None = None

    @property
    def message(self) -> str:
        verb = {"str_replace": "edit", "undo_edit": "undo the edit of"}.get(self.command)
        return f"{verb or self.command.replace('_', ' ')} {self.path}"

    @property
    def replacements(self) -> tuple[tuple[str, str, bool], ...]:
        """Every old text, what replaces it, and whether everywhere; in order."""
        first = [(self.old_str, self.new_str or "", self.replace_all)] if self.old_str else []
        more = (
            (str(e.get("old_str", "")), str(e.get("new_str", "")), bool(e.get("replace_all")))
            for e in self.edits
        )
        return (*first, *more)


class SearchAction(Action, kind="grep", runnable=True):
    pattern: str
    path: str = "."
    options: dict[str, Any] = {}

    @property
    def message(self) -> str:
        return f"grep {_first_line(self.pattern)} in {self.path}"


class GlobAction(Action, kind="glob", runnable=True):
    pattern: str
    path: str = "."
    options: dict[str, Any] = {}

    @property
    def message(self) -> str:
        return f"glob {self.pattern} in {self.path}"


_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME = 64
"""The longest tool name that providers accept."""


def server_tool_name(server: str, tool: str) -> str:
    """Return the name by which models and rules know a tool of a tool server: mcp__server__tool, in
    characters that every provider accepts. A name that is too long ends in a digest."""
    name = _NOT_IN_NAMES.sub("_", f"mcp__{server}__{tool}")
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(f"{server}__{tool}".encode(errors="replace")).hexdigest()[:8]
    return f"{name[: _LONGEST_NAME - 9]}_{digest}"


class MCPAction(Action, kind="call_tool_mcp", runnable=True):
    """A call of the tool `name` of the tool server `server`, under their own names."""

    server: str
    name: str
    arguments: dict[str, Any] = {}

    @property
    def message(self) -> str:
        return f"{self.server}: {_first_line(self.name)}"


class BrowseURLAction(Action, kind="browse", tool="fetch", runnable=True):
    url: str

    @property
    def message(self) -> str:
        return f"fetch {_first_line(self.url)}"


STEP_PARTS = ("do", "on", "value")
"""The keys of a browser step, in the order in which they are shown."""


class BrowseInteractiveAction(Action, kind="browse_interactive", runnable=True):
    """Steps to take in the session's browser, in order. Keys of a step: do (goto, click, fill,
    press, select, scroll, wait, back, screenshot, download), on (an element), value. One call goes
    to at most one site."""

    steps: tuple[dict[str, str], ...] = ()

    @property
    def url(self) -> str | None:
        """The address it goes to first, if it goes anywhere."""
        return next((s.get("value", "") for s in self.steps if s.get("do") == "goto"), None)

    @property
    def message(self) -> str:
        told = (" ".join(filter(None, map(step.get, STEP_PARTS))) for step in self.steps)
        return _first_line("; ".join(told))


class AskUserAction(Action, kind="ask", runnable=True):
    """A question to the user. `options` are answers to choose from; another one can be typed."""

    question: str
    options: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        return f"ask: {_first_line(self.question)}"


class AgentThinkAction(Action, kind="think", runnable=True):
    thought: str

    @property
    def message(self) -> str:
        return _first_line(self.thought)


class AgentFinishAction(Action, kind="finish", runnable=True):
    """The agent's own statement that the task is over, and how it went."""

    status: Literal["success", "failure"] = "success"
    final_thought: str = ""

    @property
    def message(self) -> str:
        return f"finished ({self.status}): {_first_line(self.final_thought)}"


class AgentDelegateAction(Action, kind="delegate", runnable=True):
    """A task for a child: the named agent works on it in a session of its own and sees nothing but
    `inputs["task"]`. `session` names an earlier child that is to continue with it."""

    agent: str
    inputs: dict[str, Any] = {}
    session: str = ""

    @property
    def task(self) -> str:
        return str(self.inputs.get("task", ""))

    @property
    def message(self) -> str:
        return f"{self.agent}: {_first_line(self.task)}"


class RecallAction(Action, kind="recall", runnable=True):
    recall_type: Literal["workspace_context", "knowledge", "event", "session"]
    query: str = ""

    @property
    def message(self) -> str:
        return f"recall {self.recall_type.replace('_', ' ')}"


class MemoryAction(Action, kind="memory", runnable=True):
    command: Literal["add", "replace", "remove"]
    target: Literal["memory", "user"]
    text: str


class TaskTrackingAction(Action, kind="task_tracking", tool="todo", runnable=True):
    """Items of `task_list` have: id, title, status (todo, in_progress, done, cancelled), notes."""

    command: Literal["view", "plan"]
    task_list: tuple[dict[str, str], ...] = ()

    @property
    def message(self) -> str:
        done = sum(item.get("status") == "done" for item in self.task_list)
        return f"todo: {done}/{len(self.task_list)} done" if self.task_list else "todo"


class CondensationRequestAction(Action, kind="condensation_request", runnable=True):
    """The model asks to condense older work before its next step; `focus` says what matters."""

    focus: str = ""

    @property
    def message(self) -> str:
        return "condense older work" + (f": {_first_line(self.focus)}" if self.focus else "")


class CondensationAction(Action, kind="condensation"):
    """Takes events out of what the model sees, by ids or by a range (exactly one of them). A
    summary, if any, goes to position `summary_offset` among the remaining events.
    `masked_event_ids` stay in place, with a note instead of their long text."""

    forgotten_event_ids: tuple[int, ...] | None = None
    forgotten_start_id: int | None = None
    forgotten_end_id: int | None = None
    masked_event_ids: tuple[int, ...] = ()
    summary: str | None = None
    summary_offset: int | None = None
    reason: str = ""
    numbers: dict[str, float] = {}
    """The figures behind the decision: tokens before and after, growth, costs."""
    summariser_error: str = ""
    """Why the model asked for the summary did not write it, if it failed."""

    @property
    def message(self) -> str:
        return f"condensed: {self.reason}" if self.reason else "condensed"

    def forgotten_ids(self) -> Iterable[int]:
        if self.forgotten_event_ids is not None:
            return self.forgotten_event_ids
        if self.forgotten_start_id is None or self.forgotten_end_id is None:
            return ()
        # A recorded condensation can only have taken out events before it, whatever its range says.
        last = self.forgotten_end_id if self.id < 0 else min(self.forgotten_end_id, self.id - 1)
        return range(max(self.forgotten_start_id, 0), last + 1)


class RewindAction(Action, kind="rewind"):
    """The user went back to just after event `to_event`. With `conversation`, the events between
    that one and this one no longer belong to the conversation; with `tree`, the files of the
    workspace are those of that snapshot again. Nothing is deleted from the log. `told` is what the
    next event tells the model about it."""

    to_event: int
    conversation: bool = True
    tree: str | None = None
    told: str = ""

    @property
    def message(self) -> str:
        parts = ["conversation"] * self.conversation + ["files"] * (self.tree is not None)
        return f"went back to event {self.to_event} ({' and '.join(parts)})"


class RenameAction(Action, kind="rename"):
    """The user gave the session a name."""

    name: str

    @property
    def message(self) -> str:
        return f"named {self.name}"


class ToolCallAction(Action, kind="tool_call", runnable=True):
    """A call of a tool without an Action class of its own, or a call that could not be parsed.
    `path` and `url` say what the call is about, if the rules for its tool match paths or sites."""

    name: str
    raw_arguments: str
    path: str | None = None
    url: str | None = None
    error: str | None = None
    """Why the call can't be run, if it can't."""

    @property
    def message(self) -> str:
        return f"{self.name} {_first_line(self.raw_arguments)}"


def tool_name(action: Action) -> str:
    """Return the name of the action's tool as rules use it."""
    if isinstance(action, MCPAction):
        return server_tool_name(action.server, action.name)
    return action.name if isinstance(action, ToolCallAction) else action.tool or action.kind


def path_of(action: Action) -> str | None:
    """Return the path that a file tool was given."""
    path: str | None = getattr(action, "path", None)
    return path
