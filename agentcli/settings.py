"""Every setting with its default and what it is for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, allow_inf_nan=False)


class ModelSettings(_Section):
    name: str = Field("", description="provider/model; empty: chosen by the API keys that are set")
    fallback: list[str] = Field(
        [], description="models to try in this order when that one can't answer"
    )
    effort: Literal["", "none", "low", "medium", "high"] = Field(
        "", description="how much the model reasons; empty: the provider's default"
    )
    temperature: Literal[""] | Annotated[float, Field(ge=0, le=2)] = Field(
        "", description="sampling temperature, 0 to 2; empty: the provider's default"
    )
    max_output_tokens: int = Field(
        16_384, gt=0, description="limit for one reply; at most a quarter of context_tokens"
    )
    context_tokens: int = Field(
        0, ge=0, description="context window of the model; 0: as in the catalogue"
    )

    @property
    def output_tokens(self) -> int:
        """The cap in force: at most a quarter of a small window, to leave the rest for work."""
        quarter = self.context_tokens // 4 or self.max_output_tokens
        return min(self.max_output_tokens, quarter)


class ModelsSettings(_Section):
    condenser: str | list[str] = Field(
        "", description="one or more models that summarise older work; empty: model.name"
    )
    judge: str | list[str] = Field(
        "",
        description="one or more models that rate risks; empty: model.name",
    )
    delegate: str | list[str] = Field(
        "", description="one or more models for delegated tasks; empty: model.name"
    )
    editor: str | list[str] = Field(
        "",
        description="one or more models that merge edits; empty: model.name; see enable_llm_editor",
    )
    vision: str | list[str] = Field(
        "", description="one or more models for messages with images, if model.name takes none"
    )


class LLMSettings(_Section):
    connect_s: float = Field(10.0, gt=0, description="seconds to wait for a connection")
    first_byte_s: float = Field(120.0, gt=0, description="seconds to wait for a reply to begin")
    gap_s: float = Field(90.0, gt=0, description="seconds of silence allowed within a reply")
    retries: int = Field(5, ge=0, description="attempts after the first one")
    retry_base_s: float = Field(
        2.0, ge=0, description="seconds before the first retry; doubles with each one"
    )
    retry_longest_s: float = Field(64.0, ge=0, description="longest wait between attempts")
    retry_after_longest_s: float = Field(
        300.0, ge=0, description="longest wait a server may ask for; beyond it the run stops"
    )


class ProviderSettings(_Section):
    api: str = Field(
        "",
        description="wire format; empty: that of a built-in provider, or for your own "
        "chat_completions (anthropic_messages if its address says so)",
    )
    base_url: str | None = Field(None, description="address of the API")
    api_key_env: str | None = Field(None, description="environment variable that holds the key")
    api_key_command: str | None = Field(None, description="command that prints the key")
    headers: dict[str, str] = Field({}, description="sent with each request")
    extra_body: dict[str, Any] = Field({}, description="fields added to the body of each request")
    drop_params: list[str] = Field([], description="fields never sent in the body of a request")
    stream: bool = Field(True, description="off: for servers that can't stream")
    images: bool = Field(True, description="off: for models that take no images")
    tool_format: Literal["native", "text"] = Field(
        "native", description="text: for models that can only call tools in their text"
    )


class PriceSettings(_Section):
    input: float = Field(ge=0, description="USD per million tokens")
    output: float = Field(ge=0, description="USD per million tokens")
    cache_read: float | None = Field(
        None, ge=0, description="USD per million tokens; default: input"
    )
    cache_write: float | None = Field(
        None, ge=0, description="USD per million tokens; default: input"
    )


class AgentSettings(_Section):
    max_turns: int = Field(100, gt=0, description="model replies to one message of yours")
    max_budget_usd: float = Field(
        0.0, ge=0, description="USD that a session may cost in total; 0: no limit"
    )
    max_bad_calls: int = Field(
        5, gt=0, description="replies in a row with invalid tool calls before the run stops"
    )
    max_bad_replies: int = Field(
        3, gt=0, description="replies in a row that are empty or cut off before the run stops"
    )
    max_time_s: float = Field(
        0.0, ge=0, description="seconds of wall-clock time for one run; 0: no limit"
    )
    summary_at_limit: bool = Field(
        True, description="at a limit, ask for one last reply: what is done and what is left"
    )
    approval: Literal["ask", "auto-edit", "plan", "yolo"] = Field(
        "ask", description="what runs without asking; see docs/safety.md"
    )
    approval_timeout_s: float = Field(
        60.0, gt=0, description="seconds without an answer from a closed terminal that count as no"
    )
    checkpoints: bool = Field(
        True, description="snapshot the workspace before each step that may change it"
    )
    notes: bool = Field(True, description="keep notes for later sessions (the memory tool)")
    prompt: str = Field("", description="file with your own system prompt, a Jinja template")

    @property
    def planning(self) -> bool:
        """Whether this is plan mode, in which the workspace can't be written."""
        return self.approval == "plan"


class KnowledgeSettings(_Section):
    instructions: bool = Field(True, description="read AGENTS.md (else CLAUDE.md) files")
    more_files: list[str] = Field(
        [], description='more instruction files at the root of a repository, such as ".cursorrules"'
    )
    skills: bool = Field(True, description="read skills and microagents")
    skill_folders: list[str] = Field(
        ["~/.agents/skills", "~/.claude/skills", "~/.codex/skills"],
        description="your skills besides those in skills/ beside the settings",
    )
    repo_microagents: bool = Field(True, description="always include microagents of type repo")
    disabled_microagents: list[str] = Field(
        [], description="names of skills and microagents to leave out"
    )
    session_search: bool = Field(True, description="let the model search earlier sessions")


class SecuritySettings(_Section):
    """Rules are tool(pattern): bash(git status), bash(npm run:*), edit(src/**)."""

    allow: list[str] = Field([], description="rules for what runs without asking")
    ask: list[str] = Field([], description="rules for what always needs your approval")
    deny: list[str] = Field([], description="rules for what never runs")
    confirm: Literal["always", "confirm_risky", "reach", "never"] = Field(
        "reach",
        description="always: ask for all but reads; confirm_risky: for high risk and what can't be "
        "undone; reach: for the latter only; never: for nothing",
    )
    analyzers: list[Literal["rules", "model_rating", "judge"]] = Field(
        ["rules", "model_rating"],
        description="what rates the risk of an action; the highest rating counts",
    )


class SandboxSettings(_Section):
    layer: Literal["auto", "bubblewrap", "landlock", "seatbelt", "none"] = Field(
        "auto", description="what contains commands; auto: the strongest that works here"
    )
    network: bool = Field(False, description="let all commands use the network")
    read: Literal["all", "workspace"] = Field(
        "all",
        description="all: all but secrets; workspace: only that and installed software",
    )
    writable: list[str] = Field(
        [], description="folders that may be written to besides the workspace"
    )
    share_tmp: bool = Field(False, description="use the real /tmp instead of a private one")
    environment: list[str] = Field(
        [], description="more environment variables for commands: NAME or PREFIX_*"
    )


class HookSettings(_Section):
    command: str = Field(
        description="command for sh; gets the event as JSON on stdin; exit code 2 blocks"
    )
    matcher: str = Field(
        "", description="regular expression for the names of tools; empty: all tools"
    )
    timeout_s: float = Field(60.0, gt=0, description="seconds that one run may take")
    sandboxed: bool = Field(
        True, description="off: runs with all your rights; projects can't change this"
    )


class HooksSettings(_Section):
    PreToolUse: list[HookSettings] = Field([], description="before a tool runs")
    PostToolUse: list[HookSettings] = Field([], description="after a tool ran")
    UserPromptSubmit: list[HookSettings] = Field(
        [], description="before a message of yours is accepted"
    )
    SessionStart: list[HookSettings] = Field([], description="when a session is opened")
    SessionEnd: list[HookSettings] = Field([], description="when a session is closed")
    Stop: list[HookSettings] = Field([], description="when a turn is about to end")
    PreCompact: list[HookSettings] = Field([], description="before the conversation is condensed")

    @model_validator(mode="after")
    def _matchers_match_tools(self) -> HooksSettings:
        for event in type(self).model_fields:
            for matcher in filter(None, (hook.matcher for hook in getattr(self, event))):
                if event not in ("PreToolUse", "PostToolUse"):
                    raise ValueError(f"{event} has no tool that matcher {matcher!r} could match")
                try:
                    re.compile(matcher)
                except re.error as error:
                    raise ValueError(f"{event}: matcher {matcher!r}: {error}") from error
        return self


class RunSettings(_Section):
    """What must hold before `agent run` and `agent resume` exit with 0."""

    check: str = Field("", description="command that must pass at the end; see docs/records.md")
    check_retries: int = Field(
        3, ge=0, description="how often a failed check goes back to the model"
    )
    check_timeout_s: float = Field(
        600.0, gt=0, description="seconds that one run of the check may take"
    )
    require_evidence: Literal["", "tests"] = Field(
        "", description="tests: some must have passed after the last change"
    )


class MemorySettings(_Section):
    high_water: float = Field(
        0.75, gt=0, le=1, description="share of the window at which older work is condensed"
    )
    low_water: float = Field(
        0.5, gt=0, le=1, description="share of the window that it is condensed to"
    )
    condenser: str | list[str] = Field(
        "default",
        description="how older work is condensed; a list: one after the other; see docs/memory.md",
    )
    keep_first: int = Field(1, ge=0, description="events at the start that are never dropped")
    max_size: int = Field(100, gt=0, description="events above which a summary replaces the oldest")
    max_events: int = Field(
        100, gt=0, description="events above which recent and amortized drop the oldest"
    )
    attention_window: int = Field(100, ge=0, description="newest events that are never masked")
    browser_attention_window: int = Field(1, ge=0, description="newest pages that are never masked")
    max_event_chars: int = Field(
        2_000, ge=200, description="characters of one event that the summariser gets"
    )
    cooldown_s: float = Field(
        600.0, ge=0, description="seconds without the summariser after it has failed"
    )
    enable_history_truncation: bool = Field(
        True, description="shorten a request that is too long; off: it is an error"
    )


class ToolsSettings(_Section):
    enable_cmd: bool = Field(True, description="bash")
    enable_jupyter: bool = Field(True, description="python")
    enable_editor: bool = Field(True, description="read, write, edit, grep, glob")
    enable_plan: bool = Field(True, description="todo")
    enable_think: bool = Field(False, description="think, for models without reasoning")
    enable_finish: bool = Field(True, description="finish")
    enable_delegate: bool = Field(True, description="delegate; see docs/delegation.md")
    enable_recall: bool = Field(True, description="recall")
    enable_fetch: bool = Field(True, description="fetch")
    enable_ask: bool = Field(True, description="ask")
    enable_llm_editor: bool = Field(
        False, description="llm_edit: a model edits a range of lines; see models.editor"
    )
    enable_mcp: bool = Field(True, description="tools of the servers in mcp_servers")
    mcp_schema_share: float = Field(
        0.02,
        ge=0,
        le=1,
        description="share of the window for tools of servers; more are searched for",
    )
    enable_browsing: bool = Field(
        False, description="browse, browse_interactive: a real browser; see docs/browsing.md"
    )
    browser: str = Field("", description="path of the browser; empty: the installed Chromium")
    max_output_chars: int = Field(
        30_000, ge=1_000, description="characters of one output; the rest goes to a file"
    )
    fetch_s: float = Field(30.0, gt=0, description="seconds that fetching one page may take")
    fetch_mb: float = Field(10.0, gt=0, description="megabytes of one page; the rest is not read")
    fetch_by_proxy: bool = Field(
        False, description="use the proxy of the environment, which then looks up host names itself"
    )
    max_outputs_mb: int = Field(
        1_000, ge=0, description="megabytes of such files per session; more is not kept"
    )


_SERVER_NAME = re.compile(r"[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)*")
_LONGEST_SERVER_NAME = 32
_NOT_A_SERVER = "session"
"""Not a server's name, because `@session:…` mentions a session."""


class ServerSettings(_Section):
    """A tool server (MCP). An entry without command or url says what the user allows a project's
    server to do. `${NAME}` and `${NAME:-default}` in command, args, env, url and headers stand for
    environment variables."""

    command: str = Field("", description="program to start; the server uses its stdin and stdout")
    args: list[str] = Field([], description="arguments of the program")
    env: dict[str, str] = Field({}, description="environment variables besides those of commands")
    cwd: str = Field("", description="folder it starts in; empty: the workspace")
    url: str = Field("", description="address, for a server that is reached by HTTP")
    headers: dict[str, str] = Field({}, description="sent with each HTTP request")
    enabled: bool = Field(True, description="off: it is not started")
    timeout_s: float = Field(120.0, gt=0, le=3600, description="seconds that one call may take")
    start_timeout_s: float = Field(
        15.0, gt=0, le=600, description="seconds that its start may take"
    )
    tools: list[str] = Field([], description="tools to offer; * matches any text; empty: all")
    disabled_tools: list[str] = Field([], description="tools not to offer; * matches any text")
    sandbox: bool = Field(
        True,
        description="sandbox it; off: runs with all your rights; projects can't change this",
    )
    network: bool = Field(
        False, description="let it use the network from the sandbox; projects can't change this"
    )

    @model_validator(mode="after")
    def _one_way_to_it(self) -> ServerSettings:
        if self.command and self.url:
            raise ValueError("a server has either a command or a url, not both")
        if self.url and not self.url.startswith(("http://", "https://")):
            raise ValueError("url must begin with http:// or https://")
        return self


def named_servers(servers: Mapping[str, ServerSettings]) -> dict[str, ServerSettings]:
    """Return the servers that say how to reach them."""
    return {name: server for name, server in servers.items() if server.command or server.url}


def is_server_name(name: str) -> bool:
    """Whether a tool server may have this name: mcp__NAME__tool must be unambiguous and short."""
    fits = len(name) <= _LONGEST_SERVER_NAME and bool(_SERVER_NAME.fullmatch(name))
    return fits and name != _NOT_A_SERVER


class DelegationSettings(_Section):
    max_turns: int = Field(50, gt=0, description="model replies to one delegated task")
    side_by_side: int = Field(
        3, gt=0, le=8, description="children that only read and work at the same time"
    )
    max_level: int = Field(2, ge=0, le=2, description="levels of delegation; 0: none")


class ReplaySettings(_Section):
    normalisers: list[str] = Field(
        [], description="regular expressions for text that may differ when a session is verified"
    )

    @field_validator("normalisers")
    @classmethod
    def _are_expressions(cls, values: list[str]) -> list[str]:
        for value in values:
            try:
                re.compile(value)
            except re.error as error:
                raise ValueError(f"{value!r}: {error}") from error
        return values


class SessionsSettings(_Section):
    store: str = Field(
        "files",
        description="files, sqlite:///PATH or postgresql://USER@HOST/NAME; see docs/sessions.md",
    )


class InputSettings(_Section):
    stdin_notice_s: float = Field(
        1.0, ge=0, description="seconds to wait for a silent pipe before saying so"
    )
    stdin_limit_s: float = Field(
        10.0, ge=0, description="seconds to wait for a silent pipe before going on without it"
    )
    stdin_max_bytes: int = Field(
        256_000,
        gt=0,
        description="bytes of a pipe that go into the prompt; the rest goes to a file",
    )


class UISettings(_Section):
    editing: Literal["emacs", "vi"] = Field("emacs", description="key bindings of the input line")
    notify: Literal["off", "bell", "osc9"] = Field(
        "bell", description="signal when it waits for you or a long turn ends; osc9: on the desktop"
    )
    notify_after_s: float = Field(
        10.0, ge=0, description="seconds after which a turn counts as long"
    )
    title: bool = Field(True, description="show the task in the title of the terminal")


class Settings(_Section):
    model: ModelSettings = ModelSettings()
    models: ModelsSettings = ModelsSettings()
    llm: LLMSettings = LLMSettings()
    providers: dict[str, ProviderSettings] = {}
    prices: dict[str, PriceSettings] = {}
    agent: AgentSettings = AgentSettings()
    knowledge: KnowledgeSettings = KnowledgeSettings()
    security: SecuritySettings = SecuritySettings()
    sandbox: SandboxSettings = SandboxSettings()
    hooks: HooksSettings = HooksSettings()
    run: RunSettings = RunSettings()
    memory: MemorySettings = MemorySettings()
    tools: ToolsSettings = ToolsSettings()
    delegation: DelegationSettings = DelegationSettings()
    replay: ReplaySettings = ReplaySettings()
    mcp_servers: dict[str, ServerSettings] = {}
    sessions: SessionsSettings = SessionsSettings()
    input: InputSettings = InputSettings()
    ui: UISettings = UISettings()


def flatten(settings: BaseModel, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every key in dotted form with its value."""
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        key = f"{prefix}{name}"
        if isinstance(value, BaseModel):
            yield from flatten(value, f"{key}.")
        elif isinstance(value, dict) and any(isinstance(v, BaseModel) for v in value.values()):
            for entry, section in value.items():
                yield from flatten(section, f"{key}.{entry}.")
        else:
            yield key, value


def descriptions(section: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield every key in dotted form with its description. Omits sections whose keys the user
    names."""
    for name, field in section.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from descriptions(kind, f"{prefix}{name}.")
        elif field.description is not None:
            yield f"{prefix}{name}", field.description
