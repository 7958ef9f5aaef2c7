"""Every setting with its default and what it is for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, allow_inf_nan=False)


class ModelSettings(_Section):
    name: str = Field("", description="provider/model; empty: chosen by the keys that are set")
    fallback: list[str] = Field([], description="models to go on with when that one can't answer")
    effort: Literal["", "none", "low", "medium", "high"] = Field(
        "", description="how much the model reasons; empty: as the provider decides"
    )
    temperature: Literal[""] | Annotated[float, Field(ge=0, le=2)] = Field(
        "", description="of sampling, 0 to 2; empty: as the provider decides"
    )
    max_output_tokens: int = Field(
        16_384, gt=0, description="cap on one reply, and a quarter of context_tokens at most"
    )
    context_tokens: int = Field(0, ge=0, description="window of the model; 0: as catalogued")

    @property
    def output_tokens(self) -> int:
        """The cap in force: at most a quarter of a small window, to leave the rest for work."""
        quarter = self.context_tokens // 4 or self.max_output_tokens
        return min(self.max_output_tokens, quarter)


class ModelsSettings(_Section):
    condenser: str | list[str] = Field(
        "", description="one or several to sum up older work; empty: as model.name"
    )
    judge: str | list[str] = Field(
        "", description="one or several to rate risks; empty: as model.name; see security.analyzers"
    )
    delegate: str | list[str] = Field(
        "", description="one or several for what is delegated; empty: as model.name"
    )
    editor: str | list[str] = Field(
        "", description="one or several to merge edits; empty: as model.name; see enable_llm_editor"
    )
    vision: str | list[str] = Field(
        "", description="one or several to ask when there are images and model.name takes none"
    )


class LLMSettings(_Section):
    connect_s: float = Field(10.0, gt=0, description="limit on connecting")
    first_byte_s: float = Field(120.0, gt=0, description="limit on waiting for an answer to begin")
    gap_s: float = Field(90.0, gt=0, description="limit on silence within an answer")
    retries: int = Field(5, ge=0, description="after the first attempt")
    retry_base_s: float = Field(2.0, ge=0, description="first wait; doubles with each retry")
    retry_longest_s: float = Field(64.0, ge=0, description="longest wait of our own choice")
    retry_after_longest_s: float = Field(
        300.0, ge=0, description="longest wait a server may ask for before the run gives up"
    )


class ProviderSettings(_Section):
    api: str = Field(
        "",
        description="wire format; empty: the provider's own, for one of yours chat_completions "
        "(anthropic_messages if its address says so)",
    )
    base_url: str | None = Field(None, description="address of the API")
    api_key_env: str | None = Field(None, description="variable that holds the key")
    api_key_command: str | None = Field(None, description="command that prints the key")
    headers: dict[str, str] = Field({}, description="sent with each request")
    extra_body: dict[str, Any] = Field({}, description="members added to each request body")
    drop_params: list[str] = Field([], description="members never sent in a request body")
    stream: bool = Field(True, description="off for servers that can't stream")
    images: bool = Field(True, description="off for models that take no images")
    tool_format: Literal["native", "text"] = Field(
        "native", description="text: for models that can call tools in their text only"
    )


class PriceSettings(_Section):
    input: float = Field(ge=0, description="USD per million tokens")
    output: float = Field(ge=0, description="USD per million tokens")
    cache_read: float | None = Field(None, ge=0, description="USD per million; default: input")
    cache_write: float | None = Field(None, ge=0, description="USD per million; default: input")


class AgentSettings(_Section):
    max_turns: int = Field(100, gt=0, description="model replies to one user message")
    max_budget_usd: float = Field(
        0.0, ge=0, description="USD that a session may cost in all; 0: no limit"
    )
    max_bad_calls: int = Field(5, gt=0, description="replies in a row with unusable calls")
    max_bad_replies: int = Field(3, gt=0, description="replies in a row that are empty or cut")
    max_time_s: float = Field(0.0, ge=0, description="wall clock of one run; 0: no limit")
    summary_at_limit: bool = Field(
        True, description="at a limit, one last reply that says what is done and what is left"
    )
    approval: Literal["ask", "auto-edit", "plan", "yolo"] = Field(
        "ask", description="what runs unasked: see docs/safety.md"
    )
    approval_timeout_s: float = Field(
        60.0, gt=0, description="silence of a closed terminal that counts as no"
    )
    checkpoints: bool = Field(
        True, description="keep the workspace as it was before each step that may change it"
    )
    notes: bool = Field(True, description="keep notes for later sessions: the memory tool")
    prompt: str = Field("", description="file with a system prompt of your own, a Jinja template")

    @property
    def planning(self) -> bool:
        """Whether this is plan mode, in which the workspace can't be written."""
        return self.approval == "plan"


class KnowledgeSettings(_Section):
    instructions: bool = Field(True, description="read AGENTS.md (else CLAUDE.md) files")
    more_files: list[str] = Field(
        [], description='also at the root of a repository, such as ".cursorrules"'
    )
    skills: bool = Field(True, description="read skills and microagents")
    skill_folders: list[str] = Field(
        ["~/.agents/skills", "~/.claude/skills", "~/.codex/skills"],
        description="skills of yours beside those in skills/ of the settings",
    )
    repo_microagents: bool = Field(True, description="always tell those of type repo")
    disabled_microagents: list[str] = Field([], description="skills to leave out, by name")
    session_search: bool = Field(True, description="let the model search earlier sessions")


class SecuritySettings(_Section):
    """Rules are tool(pattern): bash(git status), bash(npm run:*), edit(src/**)."""

    allow: list[str] = Field([], description="rules for what runs unasked")
    ask: list[str] = Field([], description="rules for what is always asked")
    deny: list[str] = Field([], description="rules for what never runs")
    confirm: Literal["always", "confirm_risky", "reach", "never"] = Field(
        "reach",
        description="ask for all but reading, for high risk too, for what can't be undone, or not",
    )
    analyzers: list[Literal["rules", "model_rating", "judge"]] = Field(
        ["rules", "model_rating"], description="who rates the risk of an action; the highest counts"
    )


class SandboxSettings(_Section):
    layer: Literal["auto", "bubblewrap", "landlock", "seatbelt", "none"] = Field(
        "auto", description="what contains commands; auto: the strongest that works here"
    )
    network: bool = Field(False, description="let every command reach the network")
    read: Literal["all", "workspace"] = Field(
        "all", description="all but secrets, or only the workspace and what is installed"
    )
    writable: list[str] = Field([], description="folders to write beside the workspace")
    share_tmp: bool = Field(False, description="the real /tmp instead of one of the session's own")
    environment: list[str] = Field(
        [], description="variables that commands see beside the usual ones; NAME or PREFIX_*"
    )


class HookSettings(_Section):
    command: str = Field(description="run by sh with the event as JSON on stdin; exit 2 blocks")
    matcher: str = Field("", description="tools it is for, as a regular expression; empty: all")
    timeout_s: float = Field(60.0, gt=0, description="limit on one run")
    sandboxed: bool = Field(True, description="off: with all your rights; not for a project to say")


class HooksSettings(_Section):
    PreToolUse: list[HookSettings] = Field([], description="before a tool runs")
    PostToolUse: list[HookSettings] = Field([], description="after a tool ran")
    UserPromptSubmit: list[HookSettings] = Field([], description="before a message is taken")
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
        3, ge=0, description="how often a failure of it goes back to the model"
    )
    check_timeout_s: float = Field(600.0, gt=0, description="limit on one run of it")
    require_evidence: Literal["", "tests"] = Field(
        "", description="tests: they must have passed after the last change"
    )


class MemorySettings(_Section):
    high_water: float = Field(0.75, gt=0, le=1, description="share of the window that slides it")
    low_water: float = Field(0.5, gt=0, le=1, description="share of the window it slides to")
    condenser: str | list[str] = Field(
        "default", description="how: see docs/memory.md; a list: one after the other"
    )
    keep_first: int = Field(1, ge=0, description="events that stay whatever goes")
    max_size: int = Field(100, gt=0, description="events that summaries leave alone")
    max_events: int = Field(100, gt=0, description="events that recent and amortized leave alone")
    attention_window: int = Field(100, ge=0, description="newest events that are not masked")
    browser_attention_window: int = Field(1, ge=0, description="newest pages that are not masked")
    max_event_chars: int = Field(2_000, ge=200, description="of an event, to the summariser")
    cooldown_s: float = Field(600.0, ge=0, description="without the summariser after it failed")
    enable_history_truncation: bool = Field(
        True, description="make a request that does not fit shorter; off: it is an error"
    )


class ToolsSettings(_Section):
    enable_cmd: bool = Field(True, description="bash")
    enable_jupyter: bool = Field(True, description="python")
    enable_editor: bool = Field(True, description="read, write, edit, grep, glob")
    enable_plan: bool = Field(True, description="todo")
    enable_think: bool = Field(False, description="think, for models without reasoning")
    enable_finish: bool = Field(True, description="finish")
    enable_delegate: bool = Field(True, description="delegate, to agents: see docs/delegation.md")
    enable_recall: bool = Field(True, description="recall")
    enable_fetch: bool = Field(True, description="fetch")
    enable_ask: bool = Field(True, description="ask")
    enable_llm_editor: bool = Field(
        False, description="edit of a range of lines by a model, see models.editor"
    )
    enable_mcp: bool = Field(True, description="tools of the servers in mcp_servers")
    mcp_schema_share: float = Field(
        0.02,
        ge=0,
        le=1,
        description="of the window for tools of servers; more are searched for",
    )
    enable_browsing: bool = Field(
        False, description="browse, browse_interactive: a real browser; see docs/browsing.md"
    )
    browser: str = Field(
        "", description="program of the browser; empty: the Chromium that is found"
    )
    max_output_chars: int = Field(
        30_000, ge=1_000, description="of one output; the rest, if it is worth a cut, in a file"
    )
    fetch_s: float = Field(30.0, gt=0, description="limit on fetching one page")
    fetch_mb: float = Field(10.0, gt=0, description="of one page; the rest is not read")
    fetch_by_proxy: bool = Field(
        False, description="through the proxy of the environment, which looks up names itself"
    )
    max_outputs_mb: int = Field(
        1_000, ge=0, description="of all such files of a session; what comes beyond is not kept"
    )


_SERVER_NAME = re.compile(r"[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)*")
_LONGEST_SERVER_NAME = 32
_NOT_A_SERVER = "session"
"""Not a server's name, because `@session:…` mentions a session."""


class ServerSettings(_Section):
    """A tool server (MCP). An entry without command or url says what the user allows a project's
    server to do. `${NAME}` and `${NAME:-default}` in command, args, env, url and headers stand for
    environment variables."""

    command: str = Field("", description="program to start; the server speaks on its stdin, stdout")
    args: list[str] = Field([], description="arguments of the program")
    env: dict[str, str] = Field({}, description="variables it sees beside those of commands")
    cwd: str = Field("", description="folder it starts in; empty: the workspace")
    url: str = Field("", description="address of a server that is reached by HTTP instead")
    headers: dict[str, str] = Field({}, description="sent with each HTTP request")
    enabled: bool = Field(True, description="off: it is not started")
    timeout_s: float = Field(120.0, gt=0, le=3600, description="limit on one call")
    start_timeout_s: float = Field(15.0, gt=0, le=600, description="limit on its start")
    tools: list[str] = Field([], description="the tools to offer, * for any text; empty: all")
    disabled_tools: list[str] = Field([], description="tools not to offer, * for any text")
    sandbox: bool = Field(
        True, description="contain it as commands are; off: all your rights; not for a project"
    )
    network: bool = Field(
        False, description="let a contained one reach the network; not for a project to say"
    )

    @model_validator(mode="after")
    def _one_way_to_it(self) -> ServerSettings:
        if self.command and self.url:
            raise ValueError("a server has a command or a url, one of them")
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
    max_turns: int = Field(50, gt=0, description="model replies of a child to its task")
    side_by_side: int = Field(3, gt=0, le=8, description="children at once that only read")
    max_level: int = Field(2, ge=0, le=2, description="how deep children may delegate; 0: not")


class ReplaySettings(_Section):
    normalisers: list[str] = Field(
        [], description="regular expressions: what differs by itself when a session is verified"
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
        description="files, sqlite:///PATH or postgresql://USER@HOST/NAME; docs/sessions.md",
    )


class InputSettings(_Section):
    stdin_notice_s: float = Field(1.0, ge=0, description="silence of a pipe before it is mentioned")
    stdin_limit_s: float = Field(10.0, ge=0, description="silence of a pipe before it is left out")
    stdin_max_bytes: int = Field(
        256_000, gt=0, description="of a pipe in the prompt; beyond, the rest is in a file"
    )


class UISettings(_Section):
    editing: Literal["emacs", "vi"] = Field("emacs", description="keys of the line one types in")
    notify: Literal["off", "bell", "osc9"] = Field(
        "bell", description="when it waits for you or a long turn ends; osc9: by the desktop"
    )
    notify_after_s: float = Field(10.0, ge=0, description="a turn that took so long is a long one")
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
