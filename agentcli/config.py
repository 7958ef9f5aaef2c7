"""Settings: layers of TOML merged key by key, validated once, each value with its origin.

Layers, strongest first: managed file, flags, environment, project file, user file, defaults. A
project file comes with a cloned repository, so it may tighten what follows and nothing else, until
the user trusts the folder. Lists of what is forbidden, asked, or run as a hook only ever grow: each
layer adds its own.
"""

from __future__ import annotations

import difflib
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from agentcli.errors import ConfigError

MANAGED_FILE = Path("/etc/agent/config.toml")
PROJECT_FILE = Path(".agent/config.toml")
ENVIRONMENT_KEYS = {
    "AGENT_MODEL": "model.name",
    "OPENAI_BASE_URL": "providers.openai.base_url",
    "ANTHROPIC_BASE_URL": "providers.anthropic.base_url",
}
_MAX_FILE_BYTES = 1_000_000
Api = Literal["chat_completions", "responses", "anthropic_messages"]


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
    max_output_tokens: int = Field(16_384, gt=0, description="cap on one reply")
    context_tokens: int = Field(0, ge=0, description="window of the model; 0: as catalogued")


class ModelsSettings(_Section):
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
    api: Api | None = Field(None, description="wire format; default chat_completions")
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


class SecuritySettings(_Section):
    """Rules are tool(pattern): bash(git status), bash(npm run:*), edit(src/**)."""

    allow: list[str] = Field([], description="rules for what runs unasked")
    ask: list[str] = Field([], description="rules for what is always asked")
    deny: list[str] = Field([], description="rules for what never runs")
    confirm: Literal["confirm_risky", "always", "never"] = Field(
        "confirm_risky", description="ask for actions of high risk, for all, or for none"
    )
    analyzers: list[Literal["rules", "model_rating", "judge"]] = Field(
        ["rules", "model_rating"], description="who rates the risk of an action; the highest counts"
    )


class SandboxSettings(_Section):
    layer: Literal["auto", "bubblewrap", "landlock", "seatbelt", "none"] = Field(
        "auto", description="what contains commands; auto: the strongest that works here"
    )
    network: bool = Field(False, description="let every command reach the network")
    writable: list[str] = Field([], description="folders to write beside the workspace")
    environment: list[str] = Field(
        [], description="variables that commands see beside the usual ones; NAME or PREFIX_*"
    )


class HookSettings(_Section):
    command: str = Field(description="run by sh with the event as JSON on stdin; exit 2 blocks")
    matcher: str = Field("", description="tools it is for, as a regular expression; empty: all")
    timeout_s: float = Field(60.0, gt=0, description="limit on one run")


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


class MemorySettings(_Section):
    high_water: float = Field(0.75, gt=0, le=1, description="share of the window that slides it")
    low_water: float = Field(0.5, gt=0, le=1, description="share of the window it slides to")


class ToolsSettings(_Section):
    enable_cmd: bool = Field(True, description="bash")
    enable_jupyter: bool = Field(True, description="python")
    enable_editor: bool = Field(True, description="read, write, edit, grep, glob")
    enable_plan: bool = Field(True, description="todo")
    enable_think: bool = Field(False, description="think, for models without reasoning")
    enable_finish: bool = Field(True, description="finish")
    max_output_chars: int = Field(30_000, ge=1_000, description="of one output; the rest in a file")


class InputSettings(_Section):
    stdin_notice_s: float = Field(1.0, ge=0, description="silence of a pipe before it is mentioned")
    stdin_limit_s: float = Field(10.0, ge=0, description="silence of a pipe before it is left out")
    stdin_max_bytes: int = Field(
        256_000, gt=0, description="of a pipe in the prompt; beyond, the rest is in a file"
    )


class Settings(_Section):
    model: ModelSettings = ModelSettings()
    models: ModelsSettings = ModelsSettings()
    llm: LLMSettings = LLMSettings()
    providers: dict[str, ProviderSettings] = {}
    prices: dict[str, PriceSettings] = {}
    agent: AgentSettings = AgentSettings()
    security: SecuritySettings = SecuritySettings()
    sandbox: SandboxSettings = SandboxSettings()
    hooks: HooksSettings = HooksSettings()
    memory: MemorySettings = MemorySettings()
    tools: ToolsSettings = ToolsSettings()
    input: InputSettings = InputSettings()


@dataclass(frozen=True)
class LoadedSettings:
    """`origins` maps each key that is not at its default to where it was set; `notices` are lines
    for the person about what was left out. `project_hooks`: event and command of each hook that
    the (trusted) project brought."""

    values: Settings
    origins: Mapping[str, str]
    notices: Sequence[str]
    project_hooks: frozenset[tuple[str, str]] = frozenset()


def user_file(environ: Mapping[str, str]) -> Path:
    """`$AGENT_CONFIG`, else `$XDG_CONFIG_HOME/agent/config.toml`."""
    if chosen := environ.get("AGENT_CONFIG"):
        return _expanded(chosen)
    base = environ.get("XDG_CONFIG_HOME") or "~/.config"
    return _expanded(base) / "agent" / "config.toml"


def state_home(environ: Mapping[str, str]) -> Path:
    """Where sessions and the log are: `$AGENT_HOME`, else `$XDG_STATE_HOME/agent`."""
    if chosen := environ.get("AGENT_HOME"):
        return _expanded(chosen).absolute()
    base = environ.get("XDG_STATE_HOME") or "~/.local/state"
    return _expanded(base).absolute() / "agent"


def _expanded(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"{path}: {error}") from error


def load_settings(
    environ: Mapping[str, str],
    workspace: Path,
    flags: Mapping[str, Any] | None = None,
    *,
    trusted: bytes | None = None,
) -> LoadedSettings:
    """Merge all layers; `flags` maps dotted keys to values. `trusted`: the project's file as it was
    when it was found to be trusted; without it the file is read here and may only tighten. Raises
    ConfigError, naming the layer and the key, for what can't be read, is not known or has a wrong
    value."""
    layers = _Layers()
    user = user_file(environ)
    layers.add(_read(user), str(user))
    project = workspace / PROJECT_FILE
    values = _read(project) if trusted is None else _parsed(trusted, str(project))
    for key in values:
        _check_known(key, str(project))
    ignored = [] if trusted is not None else list(beyond_tightening(values, layers.values))
    layers.add({k: v for k, v in values.items() if k not in ignored}, str(project))
    layers.add({key: environ[v] for v, key in ENVIRONMENT_KEYS.items() if environ.get(v)}, _SHELL)
    layers.add(flags or {}, "flags")
    layers.add(_read(MANAGED_FILE), str(MANAGED_FILE))
    settings = _validate(layers.values, layers.origins)
    hooks = frozenset() if trusted is None else frozenset(_hook_commands(values))
    notices = [
        f"{project}: not for a project to set until you trust it (agent trust); "
        f"ignored: {', '.join(ignored)}"
    ]
    return LoadedSettings(settings, layers.origins, notices if ignored else [], hooks)


def project_values(text: bytes, origin: str) -> dict[str, Any]:
    """What a project's file sets, by dotted key. Raises ConfigError."""
    values = _parsed(text, origin)
    for key in values:
        _check_known(key, origin)
    return values


def beyond_tightening(
    values: Mapping[str, Any], lower: Mapping[str, Any] | None = None
) -> Iterator[str]:
    """The keys among `values` that a project may not set by itself, `lower` being what weaker
    layers set."""
    return (key for key, value in values.items() if not _tightens(key, value, lower or {}))


def parse_assignment(text: str) -> tuple[str, Any]:
    """`key=value` of `--set`; the value is TOML, or else taken as a string."""
    key, equals, raw = text.partition("=")
    if not equals:
        raise ConfigError(f"--set {text}: it must be key=value", hint="e.g. agent.max_turns=20")
    try:
        return key.strip(), tomllib.loads(f"value = {raw}")["value"]
    except (ValueError, RecursionError):
        return key.strip(), raw


def flatten(settings: BaseModel, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every key in dotted form with its value."""
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


_KEYED_SECTIONS: dict[str, type[BaseModel]] = {
    "providers": ProviderSettings,
    "prices": PriceSettings,
}
_FREE_TABLES = ("headers", "extra_body")
_SHELL = "environment"
_GROWING = frozenset(
    {"security.deny", "security.ask", *(f"hooks.{name}" for name in HooksSettings.model_fields)}
)
"""Lists to which each layer adds: none can take away what another forbids or watches."""


class _Layers:
    """Values by dotted key as merged so far, and where each was set."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.origins: dict[str, str] = {}

    def add(self, layer: Mapping[str, Any], origin: str) -> None:
        """Raises ConfigError for a key that there is none of."""
        for key, value in layer.items():
            _check_known(key, origin)
            before = self.values.get(key)
            if key in _GROWING and isinstance(before, list) and isinstance(value, list):
                new = [item for item in value if item not in before]
                self.values[key] = [*before, *new]
                self.origins[key] = f"{self.origins[key]}, {origin}" if new else self.origins[key]
            else:
                self.values[key] = value
                self.origins[key] = origin


def _read(path: Path) -> dict[str, Any]:
    """The dotted keys of a TOML file; none when there is no such file."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigError(f"{path} is not a file")
            text = file.read(_MAX_FILE_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}") from error
    return _parsed(text, str(path))


def _parsed(text: bytes, origin: str) -> dict[str, Any]:
    """The dotted keys of TOML."""
    try:
        return dict(_dotted(tomllib.loads(text.decode()), ""))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{origin} is not valid TOML: {error}") from error


def _hook_commands(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Event and command of each hook among values that were found valid."""
    for event in HooksSettings.model_fields:
        for hook in values.get(f"hooks.{event}", ()):
            yield event, hook["command"]


def _dotted(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and name not in _FREE_TABLES:
            yield from _dotted(value, f"{key}.")
        else:
            yield key, value


def _split(key: str) -> list[str]:
    """Path of a dotted key; entries of keyed sections may hold dots (model names do)."""
    section, _, rest = key.partition(".")
    if section in _KEYED_SECTIONS and "." in rest:
        entry, _, name = rest.rpartition(".")
        return [section, entry, name]
    return [section, rest] if rest else [section]


def _check_known(key: str, origin: str) -> None:
    path = _split(key)
    if len(path) == 3 and path[2] in _KEYED_SECTIONS[path[0]].model_fields:
        return
    known = [name for name, _ in flatten(Settings()) if name not in _KEYED_SECTIONS]
    if key in known:
        return
    if path[0] in _KEYED_SECTIONS:
        entry = path[1] if len(path) == 3 else "NAME"
        known = [f"{path[0]}.{entry}.{n}" for n in _KEYED_SECTIONS[path[0]].model_fields]
    sections = list(Settings.model_fields)
    if path[0] not in sections:
        near = difflib.get_close_matches(path[0], sections, 1, 0.5)
        known, key = [f"{name}.{'.'.join(path[1:])}" for name in near], ".".join(path)
    near = difflib.get_close_matches(key, known, 1, 0.5)
    raise ConfigError(
        f"{origin}: there is no setting {key!r}",
        hint=f"did you mean {near[0]}?" if near else "all settings: agent config show",
    )


_APPROVALS = ("plan", "ask", "auto-edit", "yolo")
"""From strict to lax."""
_CONFIRMS = ("always", "confirm_risky", "never")
_STRICTER_LAYERS = {
    "none": ("auto", "bubblewrap", "landlock", "seatbelt"),
    "landlock": ("bubblewrap",),
    "auto": ("bubblewrap",),
}


def _tightens(key: str, value: Any, lower: Mapping[str, Any]) -> bool:
    """Whether a project may set this: a lower limit, a tool switched off, more questions, more
    that is forbidden."""
    current = lower.get(key, _defaults().get(key))
    match key:
        case "agent.max_turns" | "agent.max_bad_calls" | "agent.max_bad_replies":
            return isinstance(value, int) and isinstance(current, int) and 0 < value <= current
        case "agent.max_budget_usd" | "agent.max_time_s":
            if type(value) not in (int, float) or type(current) not in (int, float):
                return False
            # 0 is no limit at all.
            return bool(value > 0 and not 0 < current < value)
        case "agent.approval":
            return _at_least_as_strict(value, current, _APPROVALS)
        case "security.confirm":
            return _at_least_as_strict(value, current, _CONFIRMS)
        case "security.deny" | "security.ask":
            return isinstance(value, list) and all(isinstance(rule, str) for rule in value)
        case "sandbox.network":
            return value is False
        case "sandbox.layer":
            return value == current or value in _STRICTER_LAYERS.get(str(current), ())
    return key.startswith("tools.enable_") and value is False


def _at_least_as_strict(value: Any, current: Any, order: Sequence[str]) -> bool:
    return value in order and current in order and order.index(value) <= order.index(current)


def _defaults() -> dict[str, Any]:
    return dict(flatten(Settings()))


def _validate(values: Mapping[str, Any], origins: Mapping[str, str]) -> Settings:
    nested: dict[str, Any] = {}
    for key, value in values.items():
        table = nested
        *parents, name = _split(key)
        for parent in parents:
            table = table.setdefault(parent, {})
        table[name] = value
    try:
        settings = Settings.model_validate(nested)
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(str(part) for part in fault["loc"])
        origin = origins.get(key, "settings")
        raise ConfigError(f"{origin}: {key}: {fault['msg']} (it is {fault['input']!r})") from error
    if settings.memory.low_water >= settings.memory.high_water:
        raise ConfigError("memory.low_water must be below memory.high_water")
    return settings
