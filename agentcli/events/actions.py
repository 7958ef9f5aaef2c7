"""Every Action: what a person, the agent or the environment may want to be done."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any, ClassVar, Literal

from agentcli.events.base import Action, Risk


def _first_line(text: str, limit: int = 160) -> str:
    line = text.strip().split("\n", 1)[0]
    return line if len(line) <= limit else line[: limit - 1] + "…"


class SystemMessageAction(Action):
    """The system text and tool schemas of a session; every later request sends these again."""

    kind: ClassVar[str] = "system"
    content: str
    tools: tuple[dict[str, Any], ...] = ()
    agent_class: str = "CodeAgent"

    @property
    def message(self) -> str:
        return f"system prompt, {len(self.tools)} tools"


class MessageAction(Action):
    """Something said. From a user who speaks while the agent works, `delivery` says when it
    reaches the model: at the next step (steer) or after the turn (queue)."""

    kind: ClassVar[str] = "message"
    content: str
    image_urls: tuple[str, ...] = ()
    file_urls: tuple[str, ...] = ()
    wait_for_response: bool = False
    security_risk: Risk = Risk.UNKNOWN
    delivery: Literal["steer", "queue"] | None = None
    inbox_id: str | None = None
    """Of a message that came from another terminal: what it is known by in the inbox."""
    delegated: str = ""
    """Of a task that another session gave: which delegation of which session it is."""
    nudge: str | None = None
    """Of a message of the environment that tells the model it may be stuck: the rule that fired."""
    reasoning: str = ""

    @property
    def message(self) -> str:
        return _first_line(self.content)


class CmdRunAction(Action):
    """`is_input` marks text for a command that waits on its standard input; with `job`, `command`
    is what to do with that background job: status or stop. `network` and `unsandboxed` ask for more
    than the sandbox gives, for the `reason` that stands beside them."""

    kind: ClassVar[str] = "run"
    tool: ClassVar[str] = "bash"
    runnable: ClassVar[bool] = True
    command: str
    thought: str = ""
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


class IPythonRunCellAction(Action):
    kind: ClassVar[str] = "run_ipython"
    tool: ClassVar[str] = "python"
    runnable: ClassVar[bool] = True
    code: str
    thought: str = ""
    security_risk: Risk = Risk.UNKNOWN

    @property
    def message(self) -> str:
        return f"python: {_first_line(self.code)}"


class FileReadAction(Action):
    """Lines `start` to `end`, from 1, both included; `end` None reads on as far as limits allow."""

    kind: ClassVar[str] = "read"
    runnable: ClassVar[bool] = True
    path: str
    start: int = 1
    end: int | None = None
    thought: str = ""

    @property
    def message(self) -> str:
        lines = f":{self.start}-{self.end or ''}" if self.start != 1 or self.end else ""
        return f"read {self.path}{lines}"


class FileWriteAction(Action):
    kind: ClassVar[str] = "write"
    runnable: ClassVar[bool] = True
    path: str
    content: str
    thought: str = ""

    @property
    def message(self) -> str:
        return f"write {self.path}"


class FileEditAction(Action):
    """`insert_line` is the line after which `new_str` goes; 0 is the top of the file."""

    kind: ClassVar[str] = "edit"
    runnable: ClassVar[bool] = True
    path: str
    command: Literal["str_replace", "insert", "create", "undo_edit", "llm_edit"] = "str_replace"
    old_str: str | None = None
    new_str: str | None = None
    insert_line: int | None = None
    replace_all: bool = False
    start: int | None = None
    end: int | None = None
    content: str | None = None
    thought: str = ""

    @property
    def message(self) -> str:
        verb = {"str_replace": "edit", "undo_edit": "undo the edit of"}.get(self.command)
        return f"{verb or self.command.replace('_', ' ')} {self.path}"


class SearchAction(Action):
    kind: ClassVar[str] = "grep"
    runnable: ClassVar[bool] = True
    pattern: str
    path: str = "."
    options: dict[str, Any] = {}

    @property
    def message(self) -> str:
        return f"grep {_first_line(self.pattern)} in {self.path}"


class GlobAction(Action):
    kind: ClassVar[str] = "glob"
    runnable: ClassVar[bool] = True
    pattern: str
    path: str = "."
    options: dict[str, Any] = {}

    @property
    def message(self) -> str:
        return f"glob {self.pattern} in {self.path}"


_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME = 64
"""Providers take no longer names of tools."""


def server_tool_name(server: str, tool: str) -> str:
    """What models and rules call a tool of a tool server: mcp__server__tool, of the characters that
    every provider takes. One that is too long ends in a digest of the whole."""
    name = _NOT_IN_NAMES.sub("_", f"mcp__{server}__{tool}")
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(f"{server}__{tool}".encode(errors="replace")).hexdigest()[:8]
    return f"{name[: _LONGEST_NAME - 9]}_{digest}"


class MCPAction(Action):
    """A call of the tool `name` of the tool server `server`, both as these call themselves."""

    kind: ClassVar[str] = "call_tool_mcp"
    runnable: ClassVar[bool] = True
    server: str
    name: str
    arguments: dict[str, Any] = {}

    @property
    def message(self) -> str:
        return f"{self.server}: {_first_line(self.name)}"


class BrowseURLAction(Action):
    kind: ClassVar[str] = "browse"
    tool: ClassVar[str] = "fetch"
    runnable: ClassVar[bool] = True
    url: str
    thought: str = ""

    @property
    def message(self) -> str:
        return f"fetch {_first_line(self.url)}"


STEP_PARTS = ("do", "on", "value")
"""Of what is done in a browser, in the order in which people are told."""


class BrowseInteractiveAction(Action):
    """What to do in the session's browser, in order. `steps` items: do (goto, click, fill, press,
    select, scroll, wait, back, screenshot, download), on (an element), value. One call goes to one
    site at most."""

    kind: ClassVar[str] = "browse_interactive"
    runnable: ClassVar[bool] = True
    steps: tuple[dict[str, str], ...] = ()
    thought: str = ""

    @property
    def url(self) -> str | None:
        """Where it goes first, if it goes anywhere."""
        return next((s.get("value", "") for s in self.steps if s.get("do") == "goto"), None)

    @property
    def message(self) -> str:
        told = (" ".join(filter(None, map(step.get, STEP_PARTS))) for step in self.steps)
        return _first_line("; ".join(told))


class AskUserAction(Action):
    """A question to the person; `options` are answers to choose from, others can be typed."""

    kind: ClassVar[str] = "ask"
    runnable: ClassVar[bool] = True
    question: str
    options: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        return f"ask: {_first_line(self.question)}"


class AgentThinkAction(Action):
    kind: ClassVar[str] = "think"
    runnable: ClassVar[bool] = True
    thought: str

    @property
    def message(self) -> str:
        return _first_line(self.thought)


class AgentFinishAction(Action):
    """The agent's own word that the task is over, and how it went."""

    kind: ClassVar[str] = "finish"
    runnable: ClassVar[bool] = True
    status: Literal["success", "failure"] = "success"
    final_thought: str = ""
    outputs: dict[str, Any] = {}
    evidence: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        return f"finished ({self.status}): {_first_line(self.final_thought)}"


class AgentDelegateAction(Action):
    """A task for a child: the agent named works on it in a session of its own, and sees nothing but
    `inputs["task"]`. `session` is a child of before that goes on with it."""

    kind: ClassVar[str] = "delegate"
    runnable: ClassVar[bool] = True
    agent: str
    inputs: dict[str, Any] = {}
    session: str = ""
    thought: str = ""

    @property
    def task(self) -> str:
        return str(self.inputs.get("task", ""))

    @property
    def message(self) -> str:
        return f"{self.agent}: {_first_line(self.task)}"


class RecallAction(Action):
    kind: ClassVar[str] = "recall"
    runnable: ClassVar[bool] = True
    recall_type: Literal["workspace_context", "knowledge", "event", "session"]
    query: str = ""

    @property
    def message(self) -> str:
        return f"recall {self.recall_type.replace('_', ' ')}"


class MemoryAction(Action):
    kind: ClassVar[str] = "memory"
    runnable: ClassVar[bool] = True
    command: Literal["add", "replace", "remove"]
    target: Literal["memory", "user"]
    text: str


class TaskTrackingAction(Action):
    """`task_list` items: id, title, status (todo, in_progress, done, cancelled), notes."""

    kind: ClassVar[str] = "task_tracking"
    tool: ClassVar[str] = "todo"
    runnable: ClassVar[bool] = True
    command: Literal["view", "plan"]
    task_list: tuple[dict[str, str], ...] = ()

    @property
    def message(self) -> str:
        done = sum(item.get("status") == "done" for item in self.task_list)
        return f"todo: {done}/{len(self.task_list)} done" if self.task_list else "todo"


class CondensationRequestAction(Action):
    """The model asks that older work be condensed before its next step; `focus` is what matters."""

    kind: ClassVar[str] = "condensation_request"
    runnable: ClassVar[bool] = True
    focus: str = ""

    @property
    def message(self) -> str:
        return "condense older work" + (f": {_first_line(self.focus)}" if self.focus else "")


class CondensationAction(Action):
    """Events taken out of what the model sees, by ids or by a range (exactly one form); a summary,
    if any, stands at `summary_offset` of what is left. `masked_event_ids` stay where they are, with
    a note in place of their long text."""

    kind: ClassVar[str] = "condensation"
    forgotten_event_ids: tuple[int, ...] | None = None
    forgotten_start_id: int | None = None
    forgotten_end_id: int | None = None
    masked_event_ids: tuple[int, ...] = ()
    summary: str | None = None
    summary_offset: int | None = None
    reason: str = ""
    numbers: dict[str, float] = {}
    """What it was decided by: tokens before and after, growth, costs."""
    summariser_error: str = ""
    """Why the model that was to write the summary did not, if it failed."""

    @property
    def message(self) -> str:
        return f"condensed: {self.reason}" if self.reason else "condensed"

    def forgotten_ids(self) -> Iterable[int]:
        if self.forgotten_event_ids is not None:
            return self.forgotten_event_ids
        if self.forgotten_start_id is None or self.forgotten_end_id is None:
            return ()
        # Once it is recorded, it has taken out what was before it, whatever it says.
        last = self.forgotten_end_id if self.id < 0 else min(self.forgotten_end_id, self.id - 1)
        return range(max(self.forgotten_start_id, 0), last + 1)


class RewindAction(Action):
    """A person went back to just after event `to_event`. What came between that and this event is
    no part of the conversation any more (`conversation`), and the files of the workspace are again
    those of the snapshot `tree`, if one is named. Nothing is deleted from the log. `told` is what
    the next event tells the model of it."""

    kind: ClassVar[str] = "rewind"
    to_event: int
    conversation: bool = True
    tree: str | None = None
    told: str = ""

    @property
    def message(self) -> str:
        parts = ["conversation"] * self.conversation + ["files"] * (self.tree is not None)
        return f"went back to event {self.to_event} ({' and '.join(parts)})"


class RenameAction(Action):
    """A person gave the session a name."""

    kind: ClassVar[str] = "rename"
    name: str

    @property
    def message(self) -> str:
        return f"named {self.name}"


class ToolCallAction(Action):
    """A call of a tool without an Action class of its own, or one that could not be parsed. `path`
    and `url`: what it is about, if rules for its tool have patterns of paths or of sites."""

    kind: ClassVar[str] = "tool_call"
    runnable: ClassVar[bool] = True
    name: str
    raw_arguments: str
    path: str | None = None
    url: str | None = None
    error: str | None = None
    """Why the call can't be run, when it can't."""

    @property
    def message(self) -> str:
        return f"{self.name} {_first_line(self.raw_arguments)}"


def tool_name(action: Action) -> str:
    """What rules call the tool of `action`."""
    if isinstance(action, MCPAction):
        return server_tool_name(action.server, action.name)
    return action.name if isinstance(action, ToolCallAction) else action.tool or action.kind


def path_of(action: Action) -> str | None:
    """The path that a file tool was given."""
    path: str | None = getattr(action, "path", None)
    return path
