"""Every setting with its default and what it is for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, allow_inf_nan=False)


def unwrapped(value: str) -> str:
    """Return a value without the blanks, line end and quotes that come with it when it is copied,
    or taken from a file for Docker."""
    return value.strip().strip("\"'")


def setting(default: Any, description: str, **bounds: Any) -> Any:
    """Return the field of a setting."""
    return Field(default, description=description, **bounds)


class ModelSettings(_Section):
    name: str = setting("", "provider/model; empty: chosen by the API keys that are set")
    fallback: list[str] = setting([], "models to try in this order when that one can't answer")
    effort: Literal["", "none", "minimal", "low", "medium", "high", "xhigh", "max"] = setting(
        "", "none to max: how much the model reasons; empty: the provider's default"
    )
    temperature: Literal[""] | Annotated[float, Field(ge=0, le=2)] = setting(
        "", "sampling temperature, 0 to 2; empty: the provider's default"
    )
    max_output_tokens: int = setting(
        16_384, "limit for one reply; at most a quarter of context_tokens", gt=0
    )
    context_tokens: int = setting(0, "context window of the model; 0: as in the catalogue", ge=0)

    @property
    def output_tokens(self) -> int:
        """The cap in force: at most a quarter of a small window, to leave the rest for work."""
        quarter = self.context_tokens // 4 or self.max_output_tokens
        return min(self.max_output_tokens, quarter)


_Names = str | list[str]


class ModelsSettings(_Section):
    condenser: _Names = setting(
        "", "one or more models that summarise older work; empty: model.name"
    )
    judge: _Names = setting("", "one or more models that rate risks; empty: model.name")
    delegate: _Names = setting("", "one or more models for delegated tasks; empty: model.name")
    editor: _Names = setting(
        "", "one or more models that merge edits; empty: model.name; see enable_llm_editor"
    )
    vision: _Names = setting(
        "", "one or more models for messages with images, if model.name takes none"
    )


class LLMSettings(_Section):
    connect_s: float = setting(10.0, "seconds to wait for a connection", gt=0)
    first_byte_s: float = setting(120.0, "seconds to wait for a reply to begin", gt=0)
    gap_s: float = setting(90.0, "seconds of silence allowed within a reply", gt=0)
    retries: int = setting(5, "attempts after the first one", ge=0)
    retry_base_s: float = setting(
        2.0, "seconds before the first retry; doubles with each one", ge=0
    )
    retry_longest_s: float = setting(64.0, "longest wait between attempts", ge=0)
    retry_after_longest_s: float = setting(
        300.0, "longest wait a server may ask for; beyond it the run stops", ge=0
    )


Dialect = Literal[
    "hermes",
    "qwen",
    "glm",
    "invoke",
    "minimax",
    "deepseek",
    "kimi",
    "mistral",
    "llama",
    "gemma",
    "lfm",
    "gpt-oss",
    "json",
]
"""Forms of calls as text; `llm/text_calls.py` has what they look like."""
DIALECTS: tuple[Dialect, ...] = get_args(Dialect)


class ProviderSettings(_Section):
    api: str = setting(
        "",
        "wire format; empty: that of a built-in provider, or for your own "
        "chat_completions (anthropic_messages if its address says so)",
    )
    base_url: Annotated[str, AfterValidator(unwrapped)] | None = setting(None, "address of the API")
    api_key_env: str | None = setting(None, "environment variable that holds the key")
    api_key_command: str | None = setting(None, "command that prints the key")
    headers: dict[str, str] = setting({}, "sent with each request")
    extra_body: dict[str, Any] = setting({}, "fields added to the body of each request")
    drop_params: list[str] = setting([], "fields never sent in the body of a request")
    stream: bool = setting(True, "off: for servers that can't stream")
    images: bool = setting(True, "off: for models that take no images")
    tool_format: Literal["auto", "native", "text"] | Dialect = setting(
        "auto",
        "how a reply's text is read: auto: for calls in every form; native: not; a form, e.g. "
        "mistral: for that one; text: as auto, and tools are told in the system text",
    )


class PriceSettings(_Section):
    input: float = Field(ge=0, description="USD per million tokens")
    output: float = Field(ge=0, description="USD per million tokens")
    cache_read: float | None = setting(None, "USD per million tokens; default: input", ge=0)
    cache_write: float | None = setting(None, "USD per million tokens; default: input", ge=0)


class AgentSettings(_Section):
    max_turns: int = setting(100, "model replies to one message of yours", gt=0)
    max_budget_usd: float = setting(0.0, "USD that a session may cost in total; 0: no limit", ge=0)
    max_bad_calls: int = setting(
        5, "replies in a row with invalid tool calls before the run stops", gt=0
    )
    max_bad_replies: int = setting(
        3, "replies in a row that are empty or cut off before the run stops", gt=0
    )
    max_time_s: float = setting(0.0, "seconds of wall-clock time for one run; 0: no limit", ge=0)
    summary_at_limit: bool = setting(
        True, "at a limit, ask for one last reply: what is done and what is left"
    )
    approval: Literal["ask", "auto-edit", "plan", "yolo"] = setting(
        "ask", "what runs without asking; see docs/safety.md"
    )
    approval_timeout_s: float = setting(
        60.0, "seconds without an answer from a closed terminal that count as no", gt=0
    )
    checkpoints: bool = setting(True, "snapshot the workspace before each step that may change it")
    notes: bool = setting(True, "keep notes for later sessions (the memory tool)")
    prompt: str = setting("", "file with your own system prompt, a Jinja template")

    @property
    def planning(self) -> bool:
        """Whether this is plan mode, in which the workspace can't be written."""
        return self.approval == "plan"


class KnowledgeSettings(_Section):
    instructions: bool = setting(True, "read AGENTS.md (else CLAUDE.md) files")
    more_files: list[str] = setting(
        [], 'more instruction files at the root of a repository, such as ".cursorrules"'
    )
    skills: bool = setting(True, "read skills and microagents")
    skill_folders: list[str] = setting(
        ["~/.agents/skills", "~/.claude/skills", "~/.codex/skills"],
        "your skills besides those in skills/ beside the settings",
    )
    repo_microagents: bool = setting(True, "always include microagents of type repo")
    disabled_microagents: list[str] = setting([], "names of skills and microagents to leave out")
    session_search: bool = setting(True, "let the model search earlier sessions")


class SecuritySettings(_Section):
    """Rules are tool(pattern): bash(git status), bash(npm run:*), edit(src/**)."""

    allow: list[str] = setting([], "rules for what runs without asking")
    ask: list[str] = setting([], "rules for what always needs your approval")
    deny: list[str] = setting([], "rules for what never runs")
    confirm: Literal["always", "confirm_risky", "reach", "never"] = setting(
        "reach",
        "always: ask for all but reads; confirm_risky: for high risk and what can't be "
        "undone; reach: for the latter only; never: for nothing",
    )
    analyzers: list[Literal["rules", "model_rating", "judge"]] = setting(
        ["rules", "model_rating"], "what rates the risk of an action; the highest rating counts"
    )


class SandboxSettings(_Section):
    layer: Literal["auto", "bubblewrap", "landlock", "seatbelt", "none"] = setting(
        "auto", "what contains commands; auto: the strongest that works here"
    )
    network: bool = setting(False, "let all commands use the network")
    read: Literal["all", "workspace"] = setting(
        "all", "all: all but secrets; workspace: only that and installed software"
    )
    writable: list[str] = setting([], "folders that may be written to besides the workspace")
    share_tmp: bool = setting(False, "use the real /tmp instead of a private one")
    environment: list[str] = setting(
        [], "more environment variables for commands: NAME or PREFIX_*"
    )


class HookSettings(_Section):
    command: str = Field(
        description="command for sh; gets the event as JSON on stdin; exit code 2 blocks"
    )
    matcher: str = setting("", "regular expression for the names of tools; empty: all tools")
    timeout_s: float = setting(60.0, "seconds that one run may take", gt=0)
    sandboxed: bool = setting(True, "off: runs with all your rights; projects can't change this")


class HooksSettings(_Section):
    PreToolUse: list[HookSettings] = setting([], "before a tool runs")
    PostToolUse: list[HookSettings] = setting([], "after a tool ran")
    UserPromptSubmit: list[HookSettings] = setting([], "before a message of yours is accepted")
    SessionStart: list[HookSettings] = setting([], "when a session is opened")
    SessionEnd: list[HookSettings] = setting([], "when a session is closed")
    Stop: list[HookSettings] = setting([], "when a turn is about to end")
    PreCompact: list[HookSettings] = setting([], "before the conversation is condensed")

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

    check: str = setting("", "command that must pass at the end; see docs/records.md")
    check_retries: int = setting(3, "how often a failed check goes back to the model", ge=0)
    check_timeout_s: float = setting(600.0, "seconds that one run of the check may take", gt=0)
    require_evidence: Literal["", "tests"] = setting(
        "", "tests: some must have passed after the last change"
    )


class MemorySettings(_Section):
    high_water: float = setting(
        0.75, "share of the window at which older work is condensed", gt=0, le=1
    )
    low_water: float = setting(0.5, "share of the window that it is condensed to", gt=0, le=1)
    condenser: str | list[str] = setting(
        "default", "how older work is condensed; a list: one after the other; see docs/memory.md"
    )
    keep_first: int = setting(1, "events at the start that are never dropped", ge=0)
    max_size: int = setting(100, "events above which a summary replaces the oldest", gt=0)
    max_events: int = setting(100, "events above which recent and amortized drop the oldest", gt=0)
    attention_window: int = setting(100, "newest events that are never masked", ge=0)
    browser_attention_window: int = setting(1, "newest pages that are never masked", ge=0)
    max_event_chars: int = setting(
        2_000, "characters of one event that the summariser gets", ge=200
    )
    cooldown_s: float = setting(600.0, "seconds without the summariser after it has failed", ge=0)
    enable_history_truncation: bool = setting(
        True, "shorten a request that is too long; off: it is an error"
    )


class ToolsSettings(_Section):
    enable_cmd: bool = setting(True, "bash")
    enable_jupyter: bool = setting(
        False, "python: an interpreter that keeps its variables, and shows figures"
    )
    enable_editor: bool = setting(True, "read, write, edit, grep, glob")
    enable_plan: bool = setting(True, "todo")
    enable_think: bool = setting(False, "think, for models without reasoning")
    enable_finish: bool = setting(True, "finish")
    enable_delegate: bool = setting(True, "delegate; see docs/delegation.md")
    enable_recall: bool = setting(True, "recall")
    enable_fetch: bool = setting(True, "fetch")
    enable_ask: bool = setting(True, "ask")
    enable_llm_editor: bool = setting(
        False, "llm_edit: a model edits a range of lines; see models.editor"
    )
    enable_mcp: bool = setting(True, "tools of the servers in mcp_servers")
    mcp_schema_share: float = setting(
        0.02, "share of the window for tools of servers; more are searched for", ge=0, le=1
    )
    enable_browsing: bool = setting(
        False, "browse, browse_interactive: a real browser; see docs/browsing.md"
    )
    browser: str = setting("", "path of the browser; empty: the installed Chromium")
    max_output_chars: int = setting(
        30_000,
        "characters of one output, less in a small window; the rest goes to a file",
        ge=1_000,
    )
    fetch_s: float = setting(30.0, "seconds that fetching one page may take", gt=0)
    fetch_mb: float = setting(10.0, "megabytes of one page; the rest is not read", gt=0)
    fetch_by_proxy: bool = setting(
        False, "use the proxy of the environment, which then looks up host names itself"
    )
    max_outputs_mb: int = setting(
        1_000, "megabytes of such files per session; more is not kept", ge=0
    )


_SERVER_NAME = re.compile(r"[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)*")
_LONGEST_SERVER_NAME = 32
_NOT_A_SERVER = "session"
"""Not a server's name, because `@session:…` mentions a session."""


class ServerSettings(_Section):
    """A tool server (MCP). An entry without command or url says what the user allows a project's
    server to do. `${NAME}` and `${NAME:-default}` in command, args, env, url and headers stand for
    environment variables."""

    command: str = setting("", "program to start; the server uses its stdin and stdout")
    args: list[str] = setting([], "arguments of the program")
    env: dict[str, str] = setting({}, "environment variables besides those of commands")
    cwd: str = setting("", "folder it starts in; empty: the workspace")
    url: str = setting("", "address, for a server that is reached by HTTP")
    headers: dict[str, str] = setting({}, "sent with each HTTP request")
    enabled: bool = setting(True, "off: it is not started")
    timeout_s: float = setting(120.0, "seconds that one call may take", gt=0, le=3600)
    start_timeout_s: float = setting(15.0, "seconds that its start may take", gt=0, le=600)
    tools: list[str] = setting([], "tools to offer; * matches any text; empty: all")
    disabled_tools: list[str] = setting([], "tools not to offer; * matches any text")
    sandbox: bool = setting(
        True, "sandbox it; off: runs with all your rights; projects can't change this"
    )
    network: bool = setting(
        False, "let it use the network from the sandbox; projects can't change this"
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
    max_turns: int = setting(50, "model replies to one delegated task", gt=0)
    side_by_side: int = setting(3, "children that only read and work at the same time", gt=0, le=8)
    max_level: int = setting(2, "levels of delegation; 0: none", ge=0, le=2)


class ReplaySettings(_Section):
    normalisers: list[str] = setting(
        [], "regular expressions for text that may differ when a session is verified"
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
    store: str = setting(
        "files", "files, sqlite:///PATH or postgresql://USER@HOST/NAME; see docs/sessions.md"
    )


class InputSettings(_Section):
    stdin_notice_s: float = setting(1.0, "seconds to wait for a silent pipe before saying so", ge=0)
    stdin_limit_s: float = setting(
        10.0, "seconds to wait for a silent pipe before going on without it", ge=0
    )
    stdin_max_bytes: int = setting(
        256_000, "bytes of a pipe that go into the prompt; the rest goes to a file", gt=0
    )


class UISettings(_Section):
    editing: Literal["emacs", "vi"] = setting("emacs", "key bindings of the input line")
    notify: Literal["off", "bell", "osc9"] = setting(
        "bell", "signal when it waits for you or a long turn ends; osc9: on the desktop"
    )
    notify_after_s: float = setting(10.0, "seconds after which a turn counts as long", ge=0)
    title: bool = setting(True, "show the task in the title of the terminal")


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

    def changed(self, **sections: Mapping[str, Any]) -> Settings:
        """Return these settings with other valid values, by section and name."""
        update = {
            section: getattr(self, section).model_copy(update=dict(values))
            for section, values in sections.items()
        }
        return self.model_copy(update=update)


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
