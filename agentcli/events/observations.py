"""Every Observation: what came of an Action, or what happened by itself."""

from __future__ import annotations

from typing import Any, Literal

from agentcli.events.base import Observation, Risk, Value
from agentcli.events.progress import Scope

FOREIGN_PREFIX = "elsewhere:"
"""Prefix of an imported session's workspace: its path is no folder on this machine."""


class CmdMetadata(Value):
    """How a command went. `exit_code` None: it still runs or waits for input or, with
    `exit_unknown`, it was a job that ended without leaving an exit code. Times are in seconds.
    `exports` are the exported variables that the command set, or unset (None), and `exports_layer`
    is the sandbox layer in which it did."""

    exit_code: int | None = None
    exit_unknown: bool = False
    pid: int | None = None
    cwd: str | None = None
    duration_s: float = 0.0
    timed_out: bool = False
    truncated: bool = False
    full_output_path: str | None = None
    waiting_for_input: bool = False
    job_id: str | None = None
    exports: dict[str, str | None] = {}
    exports_layer: str = ""


class CmdOutputObservation(Observation, kind="run"):
    command: str = ""
    metadata: CmdMetadata = CmdMetadata()

    @property
    def message(self) -> str:
        if self.metadata.exit_unknown:
            return "ended, exit code unknown"
        if self.metadata.exit_code is None:
            return "still running"
        return f"exit {self.metadata.exit_code} in {self.metadata.duration_s:.1f} s"


class IPythonRunCellObservation(Observation, kind="run_ipython"):
    code: str = ""
    image_urls: tuple[str, ...] = ()
    error: bool = False


class FileReadObservation(Observation, kind="read"):
    """`digest` is that of the bytes as read; `lines_shown` are the first and last line, from 1."""

    path: str
    digest: str = ""
    lines_shown: tuple[int, int] | None = None
    lines_total: int | None = None
    image_urls: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        return f"read {self.path}"


class FileWriteObservation(Observation, kind="write"):
    """`digest` is that of the file's bytes as written; `diff` is a unified diff."""

    path: str
    digest: str = ""
    diff: str = ""
    prev_exist: bool = False

    @property
    def message(self) -> str:
        return f"wrote {self.path}"


class FileEditObservation(Observation, kind="edit"):
    """`old_content` is the whole file before the edit, for `undo_edit`; None if the file is new."""

    path: str
    digest: str = ""
    digest_before: str = ""
    diff: str = ""
    prev_exist: bool = True
    old_content: str | None = None

    @property
    def message(self) -> str:
        return f"edited {self.path}"


class SearchObservation(Observation, kind="search"):
    matches: int = 0
    truncated: bool = False

    @property
    def message(self) -> str:
        return f"{self.matches} matches" + (" (cut)" if self.truncated else "")


class BrowserOutputObservation(Observation, kind="browse"):
    """`url` is the final address of the content, or where the browser is now; `screenshot` is the
    file of the last screenshot, `image_urls` are those that the model sees."""

    url: str
    status_code: int | None = None
    screenshot: str | None = None
    image_urls: tuple[str, ...] = ()
    error: bool = False

    @property
    def message(self) -> str:
        return f"fetched {self.url}" + (f": {self.status_code}" if self.status_code else "")


class UserAnswerObservation(Observation, kind="ask"):
    """The user's answer to a question of the agent; `answer` None: nobody answered."""

    answer: str | None = None

    @property
    def message(self) -> str:
        return "no answer" if self.answer is None else f"answered: {self.answer[:160]}"


class RecallObservation(Observation, kind="recall"):
    recall_type: str = ""
    result: dict[str, Any] = {}

    @property
    def message(self) -> str:
        return f"recalled {self.recall_type.replace('_', ' ')}"


class AgentThinkObservation(Observation, kind="think"):
    """The thought was taken note of."""


class TaskTrackingObservation(Observation, kind="task_tracking"):
    command: str = "view"
    task_list: tuple[dict[str, str], ...] = ()


class DelegateStartedObservation(Observation, kind="delegate_started"):
    """The child `session_id` is about to carry out the delegation `action_id`. Recorded before
    anything of the child exists, so that the same child continues after a kill. It is not the
    result of the action."""

    action_id: int
    session_id: str
    agent: str

    @property
    def message(self) -> str:
        return f"{self.agent} works in session {self.session_id}"


class DelegateObservation(Observation, kind="delegate"):
    """What a child reported. `status` is finished, failed, or what stopped it: max_turns, stuck,
    interrupted, …; `steps`, `cost_usd` and `metrics` (by model, as in the state) cover the child's
    work on this task, including its own children; `files_changed` are relative to the workspace."""

    agent: str
    session_id: str
    status: str = "finished"
    error: bool = False
    needs_approval: str = ""
    """What the child could not do because nobody was there to be asked."""
    steps: int = 0
    cost_usd: float | None = None
    metrics: dict[str, dict[str, float | int | None]] = {}
    abandoned_usd: float = 0.0
    files_changed: tuple[str, ...] = ()
    tests: tuple[dict[str, Any], ...] = ()
    """The test runs of the child, newest last: command, runner, outcome, and whether they are
    `newest`, which means that nothing changed after them."""

    @property
    def message(self) -> str:
        return f"{self.agent} {self.status} after {self.steps} steps"


class MemoryObservation(Observation, kind="memory"):
    """Notes for later sessions after a change: the number of `entries` in the file at `path`, and
    the texts that were added and removed."""

    target: str = "memory"
    entries: int = 0
    path: str = ""
    added: str = ""
    removed: str = ""


class ToolResultObservation(Observation, kind="tool_result"):
    """The result of a tool without an Observation class of its own."""

    name: str
    error: bool = False
    image_urls: tuple[str, ...] = ()
    data: dict[str, Any] = {}


class MCPObservation(Observation, kind="mcp"):
    """The answer of a tool server's tool; `error` says whether it failed. `structured` is the same
    as data, if the server sent that; `full_output_path` has all of it, if `content` is cut."""

    server: str
    name: str
    error: bool = False
    image_urls: tuple[str, ...] = ()
    structured: dict[str, Any] | None = None
    full_output_path: str | None = None
    duration_s: float = 0.0


class AgentStateChangedObservation(Observation, kind="agent_state_changed"):
    """`reason` is a stable word (finished, max_turns, interrupted, …), `content` explains it in
    full; `exit_code` is that of a run that ends here."""

    agent_state: str
    reason: str = ""
    grant: str | None = None
    exit_code: int | None = None

    @property
    def message(self) -> str:
        return self.agent_state + (f": {self.reason}" if self.reason else "")


class SessionStartedObservation(Observation, kind="session_started"):
    """Recorded by each process that opens the session to write; `resumed` on all but the first."""

    version: str
    session_id: str
    model: str
    sandbox: str
    workspace: str
    pid: int
    host: str
    name: str | None = None
    resumed: bool = False
    forked_from: str | None = None
    forked_at: int | None = None
    max_budget_usd: float | None = None
    """The most that the session may cost in all, if limited."""
    sealed: bool = False
    """Whether this is plan mode, in which commands can't write to the workspace."""
    network: bool = False
    """Whether every command has network access without being asked about."""
    writable: tuple[str, ...] | None = None
    """The folders that commands can write to; None: not recorded."""
    host_ports: tuple[int, ...] | None = None
    """Ports of the machine that commands reach on their own loopback; None: not recorded."""
    parent: str | None = None
    """The session that delegated its task to this one."""
    agent: str = ""
    """For a child: the name of its agent."""
    delegate_level: int = 0
    """How many sessions are above this one."""

    @property
    def message(self) -> str:
        return f"session {self.session_id} {'resumed' if self.resumed else 'started'}"


class CheckpointObservation(Observation, kind="checkpoint"):
    """The workspace at this moment is kept as the snapshot `tree`; empty if it could not be kept,
    and `content` says why. `moment`: before a step that may change files, when a turn ends after
    such a step, or before the user goes back. `left_out` names what the snapshot lacks. `changed`
    are the files that differ from the previous checkpoint, at most a thousand and without what
    tools generate; None: not determined."""

    tree: str = ""
    moment: Literal["before_step", "turn_end", "before_rewind"] = "before_step"
    left_out: tuple[str, ...] = ()
    changed: tuple[str, ...] | None = None

    @property
    def message(self) -> str:
        return f"checkpoint {self.tree[:12]}" if self.tree else f"no checkpoint: {self.content}"


class GitCleanupObservation(Observation, kind="set_aside"):
    """Something that commands had changed or created, and that git would run or trust or that would
    run with more rights, was put right. `items` say in words what was done; what was taken away is
    kept in `folder`. `content` is for the model, if no result of a command told it."""

    items: tuple[str, ...] = ()
    folder: str = ""

    @property
    def message(self) -> str:
        where = f"; kept in {self.folder}" if self.folder else ""
        return f"put right: {'; '.join(self.items)}{where}"


class RestoreStartedObservation(Observation, kind="going_back"):
    """The user started to bring files back: `content` says to which point, `command` repeats it.
    The RewindAction after it is the outcome; without one it was cut off, with files half restored.
    The event before it holds the workspace as it was."""

    command: str = ""

    @property
    def kept_at(self) -> int:
        return self.id - 1


class DecisionObservation(Observation, kind="decision"):
    """Whether an action may run, who decided it, and what the user allowed for later: `grant` is a
    rule as in the settings, such as bash(git push:*)."""

    decision: Literal["allow", "ask", "deny"]
    by: Literal["policy", "user", "hook"]
    rule: str = ""
    risk: Risk = Risk.UNKNOWN
    reason: str = ""
    grant: str | None = None
    scope: Scope | None = None
    """For how long the user allowed it."""
    unattended: bool = False
    """It was denied only because nobody could be asked."""
    path: str | None = None
    """For a write: the real path that was judged."""

    @property
    def message(self) -> str:
        return f"{self.decision} by {self.by}" + (f": {self.reason}" if self.reason else "")


class RiskJudgedObservation(Observation, kind="risk_judged"):
    """A model was asked how risky an action is; `content` is its answer."""

    @property
    def message(self) -> str:
        return f"judged: {self.content}"


class TextMergedObservation(Observation, kind="text_merged"):
    """A model merged the sketch of an edit into the lines of the file; the result follows."""

    @property
    def message(self) -> str:
        return "a model merged an edit"


class HookObservation(Observation, kind="hook"):
    """A hook ran and had something to say, or went wrong; `content` is what it said. `event` names
    the moment, as in the settings; `exit_code` None: it ran out of time or could not be started."""

    event: str
    command: str
    exit_code: int | None = None
    blocked: bool = False

    @property
    def message(self) -> str:
        outcome = "blocked" if self.blocked else f"exit {self.exit_code}"
        said = self.content.strip().splitlines()[:1]
        return ": ".join([f"hook {self.event} {outcome}", *(line[:160] for line in said)])


class ReplyDiscardedObservation(Observation, kind="reply_discarded"):
    """Only a part of a reply was on disk; that part is never shown to a model."""

    reply_id: str

    @property
    def message(self) -> str:
        return "an incomplete reply was discarded"


CHOSEN = "chosen"
"""The reason of a model switch that the user made; such a switch lasts."""


class ModelSwitchedObservation(Observation, kind="model_switched"):
    """From here on another model answers. `reason` is a stable word: the kind of error that the
    previous model failed with, images, too_long, main_again, or chosen; `content` explains it in
    full."""

    from_model: str
    to_model: str
    reason: str = ""

    @property
    def message(self) -> str:
        return self.content or f"{self.from_model} → {self.to_model}: {self.reason}"


class AttemptsAbandonedObservation(Observation, kind="attempts_abandoned"):
    """Requests broke off before their replies were complete. Their cost is unknown, but at most
    `most_usd` in all, which counts against the budget."""

    most_usd: float

    @property
    def message(self) -> str:
        return f"replies that broke off may have cost up to ${self.most_usd:.4f}"


class PrefixChangedObservation(Observation, kind="prefix_changed"):
    """The next request does not begin with the previous one, so the provider's cache of it is lost.
    `changed` is system, tools, model, or the first message that differs, as "message 17", counted
    from 1."""

    changed: str

    @property
    def message(self) -> str:
        return self.content or f"the prompt changed: {self.changed}"


class RequestAdaptedObservation(Observation, kind="request_adapted"):
    """A provider refused a request and named the cause, so it was sent again without it. `reason`
    is a stable name of the cause; what the messages before this event lose, if anything, is in
    `drops`: reasoning (opaque provider data) or images. `reply_tokens` are what the window has room
    for beside the prompt; 0 if that was not the cause."""

    model: str
    reason: str
    reply_tokens: int = 0
    drops: Literal["", "reasoning", "images"] = ""

    @property
    def message(self) -> str:
        return f"{self.model}: {self.content or self.reason}"


class UserRejectObservation(Observation, kind="user_rejected"):
    """The user, a rule or a hook refused an action: `reason` is for people, `content` for the
    model."""

    reason: str = ""


class ErrorObservation(Observation, kind="error"):
    """`error_id` is a stable name for the kind of error."""

    error_id: str
    retryable: bool = False

    @property
    def message(self) -> str:
        return f"{self.error_id}: " + self.content.split("\n", 1)[0][:200]


class SuccessObservation(Observation, kind="success"):
    """An action was done and has nothing to show."""


class NullObservation(Observation, kind="null"):
    """Stands for an event that an import left out; `changed` is kept if that was a checkpoint."""

    changed: tuple[str, ...] | None = None


class RequirementsObservation(Observation, kind="requirements"):
    """What must hold before the work on the next message, or on what is left to do, counts as done:
    with `tests`, tests pass and are newer than the last change; the user's `check` passes, after
    whose failures the model gets `retries` more attempts in all; the answer fits the JSON
    `answer_schema`. It applies until the user says something else."""

    tests: bool = False
    check: str = ""
    retries: int = 0
    answer_schema: dict[str, Any] | None = None

    @property
    def message(self) -> str:
        named = {"tests": self.tests, f"check {self.check}": self.check}
        wanted = [*(name for name, given in named.items() if given)]
        wanted += ["an answer that fits a schema"] * (self.answer_schema is not None)
        return f"required: {', '.join(wanted) or 'nothing'}"


class RequirementJudgedObservation(Observation, kind="requirement"):
    """Whether a requirement was `met` when the model was done; if not, `content` says why. For a
    check: its `command`, its duration in seconds, and its exit code, None if it ran out of time."""

    requirement: Literal["tests", "check", "answer"]
    met: bool
    command: str = ""
    exit_code: int | None = None
    duration_s: float = 0.0

    @property
    def message(self) -> str:
        what = f"{self.requirement} {self.command}".strip()
        return f"{what}: {'passed' if self.met else 'failed'}"
