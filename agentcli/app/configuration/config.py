"""Loads settings: layers of TOML, merged key by key and validated once, each value with its origin.

Layers, strongest first: managed file, flags, environment, project file, user file, defaults. A
project file comes with a cloned repository, so until the user trusts the folder it may only tighten
the settings of weaker layers. Lists of what is forbidden, asked about, or run as a hook only ever
grow: each layer adds its own items.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from agentcli.app.configuration.places import MANAGED_FILE, PROJECT_FILE, user_file
from agentcli.app.configuration.settings_errors import describe_error, dotted_key
from agentcli.errors import ConfigError
from agentcli.llm.provider import protocol_names
from agentcli.settings import (
    HooksSettings,
    PriceSettings,
    ProviderSettings,
    ServerSettings,
    Settings,
    flatten,
)
from agentcli.workspace.private import NotRegular, ownership_fault, read_regular
from agentcli.workspace.text import LongKeyError, load_toml, toml_text

ENVIRONMENT_KEYS = {
    "AGENT_MODEL": "model.name",
    "AGENT_STORE": "sessions.store",
    "OPENAI_BASE_URL": "providers.openai.base_url",
    "ANTHROPIC_BASE_URL": "providers.anthropic.base_url",
}
STORE = "sessions.store"
_MAX_FILE_BYTES = 1_000_000


@dataclass(frozen=True)
class LoadedSettings:
    """`origins` maps each key that is not at its default to where it was set; `notices` are lines
    for the user about what was left out. `project_hooks` are the event and command of each hook
    that the (trusted) project brought."""

    values: Settings
    origins: Mapping[str, str]
    notices: Sequence[str]
    project_hooks: frozenset[tuple[str, str]] = frozenset()


def load_settings(
    environ: Mapping[str, str],
    workspace: Path,
    flags: Mapping[str, Any] | None = None,
    *,
    trusted: bytes | None = None,
    servers: bytes = b"",
    on_fault: Callable[[ConfigError], None] | None = None,
) -> LoadedSettings:
    """Merge all layers; `flags` maps dotted keys to values. If the folder is trusted, `trusted` is
    the content of the project's file and `servers` that of its .mcp.json. Otherwise the project's
    file is read here, may only tighten settings, and faults in it are left out. Other faults (a
    file that can't be read, an unknown key, a wrong value) are left out and passed to `on_fault`;
    without that, the first one is raised as ConfigError, naming the layer and the key."""
    user, project = user_file(environ), workspace / PROJECT_FILE
    notices: list[str] = []

    def tell(origin: str, error: ConfigError) -> None:
        if trusted is None and origin == str(project):
            # The file comes with whatever was cloned, so faults in it must not stop a run.
            notices.append(f"{error.message}; left out")
        elif on_fault is None:
            raise error
        else:
            on_fault(error)

    layers = _Layers(tell)
    layers.read(lambda: read_layer(user), str(user))
    if trusted is None:
        values = layers.sound(lambda: read_layer(project, of_project=True), str(project))
        values, left_out = _tightening(values, str(project), layers.values)
    else:
        values = layers.sound(lambda: _parsed(trusted, str(project)), str(project))
        left_out = list(_contained_hooks(values, str(project)))
        values = _add_servers(layers, values, servers, workspace, notices)
        if values.pop(STORE, None) is not None:
            notices.append(f"{project}: a project can't set {STORE}")
    notices += left_out
    layers.add(values, str(project))
    shell = {key: environ[v] for v, key in ENVIRONMENT_KEYS.items() if environ.get(v)}
    layers.add(shell, "environment")
    layers.read(lambda: dict(flags or {}), "flags")
    layers.read(lambda: read_layer(MANAGED_FILE), str(MANAGED_FILE))
    settings = layers.settings()
    hooks = frozenset() if trusted is None else frozenset(_hook_commands(values))
    return LoadedSettings(settings, layers.origins, notices, hooks)


def _add_servers(
    layers: _Layers,
    values: dict[str, Any],
    servers: bytes,
    workspace: Path,
    notices: list[str],
) -> dict[str, Any]:
    """Add a layer for the `servers` of a trusted .mcp.json. Return the `values` of the project file
    without what a project may not set."""
    from agentcli.mcp.servers_file import FILE, of_file, permitted

    own = dict(layers.values)
    if servers:
        named = str(workspace / FILE)
        layers.add(permitted(of_file(servers, named, notices), own, named, notices), named)
    return permitted(values, own, str(workspace / PROJECT_FILE), notices)


def _tightening(
    values: dict[str, Any], origin: str, lower: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Return the `values` that an untrusted project may set, and lines for the user on the rest."""
    ignored = list(beyond_tightening(values, lower))
    values = {key: value for key, value in values.items() if key not in ignored}
    notices = []
    if ignored:
        what = f"so its {', '.join(ignored)} {'take' if len(ignored) > 1 else 'takes'} no effect"
        notices.append(f"{origin} is not trusted, {what}; see agent trust")
    for key in _RULES:
        faults = {rule: _rule_fault(rule) for rule in values.get(key, ())}
        if any(faults.values()):
            values[key] = [rule for rule, fault in faults.items() if not fault]
            first = next(filter(None, faults.values()))
            count = len(faults) - len(values[key])
            notices.append(f"{origin}: {key}: {first}; {count} left out")
    return values, notices


def _rule_fault(text: str) -> str:
    """Return what is wrong with a project's rule; "" if nothing is."""
    from agentcli.security.policy.rules import check_rule, parse_rule
    from agentcli.tools.registry import rule_patterns

    try:
        check_rule(parse_rule(text, "deny", "its rule"), rule_patterns())
    except ConfigError as error:
        return error.message
    return ""


def _contained_hooks(values: dict[str, Any], origin: str) -> Iterator[str]:
    """Keep a project's hooks in the sandbox whatever it says; yield a line for the user where it
    says otherwise."""
    for key in (f"hooks.{event}" for event in HooksSettings.model_fields):
        hooks = values.get(key)
        if not isinstance(hooks, list):
            continue
        free = [hook for hook in hooks if isinstance(hook, dict) and hook.get("sandboxed") is False]
        values[key] = [{**hook, "sandboxed": True} if hook in free else hook for hook in hooks]
        if free:
            yield f"{origin}: {key}: a project can't set sandboxed; it stays on"


def project_values(text: bytes, origin: str) -> dict[str, Any]:
    """Return what a project's file sets, by dotted key. Raises ConfigError."""
    values = _parsed(text, origin)
    for key in values:
        _check_known(key, origin)
    return values


def check_setting(text: str, key: str, value: Any, origin: str) -> None:
    """Raise ConfigError if `key` is no setting, `value` is not valid for it, or the two conflict
    with what else the TOML `text` sets. Other mistakes in `text` are left to whoever loads it, and
    so is a value missing beside `key`, which may be set next."""
    layers = _Layers(_overlook)
    layers.read(lambda: _parsed(text.encode(), origin), origin)
    layers.values.pop(key, None)
    layers.settings()
    _check_known(key, origin)
    layers.add({key: value}, origin)
    layers.tell = _refuse
    layers.settings()


def _overlook(origin: str, error: ConfigError) -> None:
    """Ignore a fault elsewhere, as it is not what is being checked."""


def _refuse(origin: str, error: ConfigError) -> None:
    if not isinstance(error, _Missing):
        raise error


class _Missing(ConfigError):
    """A value is missing that must be set along with others."""


def beyond_tightening(
    values: Mapping[str, Any], lower: Mapping[str, Any] | None = None
) -> Iterator[str]:
    """Return those keys of `values` that a project may not set without trust; `lower` is what
    weaker layers set."""
    return (key for key, value in values.items() if not _tightens(key, value, lower or {}))


def parse_assignment(text: str) -> tuple[str, Any]:
    """Parse `key=value` of `--set`; a value that is not TOML is taken as a string."""
    key, equals, raw = text.partition("=")
    if not equals:
        raise ConfigError(f"--set {text}: it must be key=value", hint="e.g. agent.max_turns=20")
    try:
        return key.strip(), load_toml(f"value = {raw}")["value"]
    except (ValueError, RecursionError):
        return key.strip(), raw


def require_unmanaged(key: str, origins: Mapping[str, str]) -> None:
    """Raise ConfigError if the managed settings set `key`; `origins` are as in `LoadedSettings`."""
    if origins.get(key) == str(MANAGED_FILE):
        raise ConfigError(f"{key} is set by {MANAGED_FILE} and can't be changed here")


def parse_assignments(texts: Iterable[str] | None) -> dict[str, Any]:
    """Parse the values of `--set`, if there are any. Raises ConfigError."""
    return dict(map(parse_assignment, texts or ()))


_KEYED_SECTIONS: dict[str, type[BaseModel]] = {
    "providers": ProviderSettings,
    "prices": PriceSettings,
    "mcp_servers": ServerSettings,
}
_FREE_TABLES = ("headers", "extra_body", "env")
_RULES = ("security.deny", "security.ask")
_GROWING = frozenset({*_RULES, *(f"hooks.{name}" for name in HooksSettings.model_fields)})
"""Lists that each layer adds to, so that none can take away what another forbids or watches."""


class _Layers:
    """The merged values so far, by dotted key, and where each was set. `tell` gets each fault in
    them, with its origin."""

    def __init__(self, tell: Callable[[str, ConfigError], None]) -> None:
        self.values: dict[str, Any] = {}
        self.origins: dict[str, str] = {}
        self.tell = tell

    def read(self, read: Callable[[], dict[str, Any]], origin: str) -> None:
        """Add the settings that `read` returns, as far as they are sound."""
        self.add(self.sound(read, origin), origin)

    def sound(self, read: Callable[[], dict[str, Any]], origin: str) -> dict[str, Any]:
        """Return the settings that `read` returns, without unknown keys."""
        found: dict[str, Any] = {}
        try:
            for key, value in read().items():
                try:
                    _check_known(key, origin)
                    found[key] = value
                except ConfigError as error:
                    self.tell(origin, error)
        except ConfigError as error:
            self.tell(origin, error)
        return found

    def add(self, layer: Mapping[str, Any], origin: str) -> None:
        for key, value in layer.items():
            before = self.values.get(key)
            if key in _GROWING and isinstance(before, list) and isinstance(value, list):
                new = [item for item in value if item not in before]
                self.values[key] = [*before, *new]
                self.origins[key] = f"{self.origins[key]}, {origin}" if new else self.origins[key]
            else:
                self.values[key] = value
                self.origins[key] = origin

    def settings(self) -> Settings:
        """Return the settings that the values make. Wrong ones are told and removed."""
        while True:
            try:
                settings = Settings.model_validate(nested(self.values))
            except ValidationError as error:
                keys, fault = self._first_fault(error)
            else:
                wrong = next(_beyond_types(settings), None)
                if wrong is None:
                    return settings
                about, told, hint = wrong
                keys = [key for key in about if key in self.values]
                fault = ConfigError(f"{self.origins[keys[0]]}: {told}", hint=hint)
            self.tell(self.origins[keys[0]], fault)
            for key in keys:
                del self.values[key], self.origins[key]

    def _first_fault(self, error: ValidationError) -> tuple[list[str], ConfigError]:
        """Return the first keys with a fault, and the fault; wrong values come before missing
        ones."""
        wrong_values = [fault for fault in error.errors() if fault["type"] != "missing"]
        faults = {dotted_key(fault): fault for fault in wrong_values or error.errors()}
        keys = _keys_of(next(iter(faults)), self.values)
        # If a value has several valid types, the last fault is the one about bounds.
        *_, place = (place for place in faults if _keys_of(place, self.values) == keys)
        fault = faults[place]
        beside = fault["type"] == "missing" and not place.startswith(f"{keys[0]}.")
        kind = _Missing if beside else ConfigError
        return keys, kind(f"{self.origins[keys[0]]}: {describe_error(fault, keys[0])}")


def read_layer(path: Path, *, of_project: bool = False) -> dict[str, Any]:
    """Return the dotted keys of a TOML file; none if there is no such file. Raises ConfigError."""
    return _parsed(read_file(path, of_project=of_project), str(path))


def read_file(path: Path, *, of_project: bool = False) -> bytes:
    """Return the content of a settings file; empty if there is no such file. Unless it is a
    project's, it must belong to the user or root, and nobody else may be able to write it. Raises
    ConfigError."""
    try:
        text, facts = read_regular(path, _MAX_FILE_BYTES + 1, follow=True)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except (NotRegular, IsADirectoryError) as error:
        raise ConfigError(f"{path} is not a file") from error
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}") from error
    if not of_project and (fault := ownership_fault(facts)):
        raise ConfigError(
            f"{path} can't be trusted: {fault}",
            hint=f"if its content is as you left it: chown $USER {path}; chmod go-w {path}",
        )
    if len(text) > _MAX_FILE_BYTES:
        raise ConfigError(f"{path} is longer than {_MAX_FILE_BYTES:,} bytes")
    return text


def _parsed(text: bytes, origin: str) -> dict[str, Any]:
    """Return the dotted keys of a TOML text."""
    try:
        return dict(dotted(load_toml(toml_text(text))))
    except LongKeyError as error:
        raise ConfigError(f"{origin} can't be read: {error}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{origin} is not valid TOML: {error}") from error


def _hook_commands(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield event and command of each hook in valid values."""
    for event in HooksSettings.model_fields:
        for hook in values.get(f"hooks.{event}", ()):
            yield event, hook["command"]


def dotted(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and name not in _FREE_TABLES:
            yield from dotted(value, f"{key}.")
        else:
            yield key, value


def key_path(key: str) -> list[str]:
    """Return the tables and the name in them that a dotted key stands for. Entries of keyed
    sections may contain dots (model names do)."""
    section, _, rest = key.partition(".")
    if section in _KEYED_SECTIONS and "." in rest:
        entry, _, name = rest.rpartition(".")
        return [section, entry, name]
    return [section, rest] if rest else [section]


def _check_known(key: str, origin: str) -> None:
    path = key_path(key)
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


_FROM_STRICT_TO_LAX = {
    "agent.approval": ("plan", "ask", "auto-edit", "yolo"),
    "security.confirm": ("always", "confirm_risky", "reach", "never"),
}
_STRICTER_LAYERS = {
    "none": ("auto", "bubblewrap", "landlock", "seatbelt"),
    "landlock": ("bubblewrap",),
    "auto": ("bubblewrap",),
}


def _tightens(key: str, value: Any, lower: Mapping[str, Any]) -> bool:
    """Whether a project may set this without trust: a lower limit, a tool switched off, more
    questions, more that is forbidden."""
    current = lower.get(key, dict(flatten(Settings())).get(key))
    match key:
        case "agent.max_turns" | "agent.max_bad_calls" | "agent.max_bad_replies":
            return isinstance(value, int) and isinstance(current, int) and 0 < value <= current
        case "agent.max_budget_usd" | "agent.max_time_s":
            if type(value) not in (int, float) or type(current) not in (int, float):
                return False
            # 0 means no limit.
            return bool(value > 0 and not 0 < current < value)
        case "agent.approval" | "security.confirm":
            order = _FROM_STRICT_TO_LAX[key]
            are_known = value in order and current in order
            return are_known and order.index(value) <= order.index(current)
        case "security.deny" | "security.ask":
            return isinstance(value, list) and all(isinstance(rule, str) for rule in value)
        case "sandbox.network":
            return value is False
        case "sandbox.read":
            return bool(value == "workspace")
        case "sandbox.layer":
            return value == current or value in _STRICTER_LAYERS.get(str(current), ())
    return key.startswith("tools.enable_") and value is False


def _beyond_types(settings: Settings) -> Iterator[tuple[Sequence[str], str, str]]:
    """Yield faults in values of the right types: the keys, what is wrong, a hint."""
    if settings.memory.low_water >= settings.memory.high_water:
        keys = ("memory.low_water", "memory.high_water")
        yield keys, "memory.low_water must be below memory.high_water", ""
    for name, provider in settings.providers.items():
        if provider.api and provider.api not in protocol_names():
            key = f"providers.{name}.api"
            told = f"{key}: there is no wire format {provider.api!r}"
            yield [key], told, f"there are {', '.join(protocol_names())}"


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by dotted key as tables in tables."""
    whole: dict[str, Any] = {}
    for key, value in values.items():
        table = whole
        *parents, name = key_path(key)
        for parent in parents:
            table = table.setdefault(parent, {})
        table[name] = value
    return whole


def _keys_of(named: str, values: Mapping[str, Any]) -> list[str]:
    """Return the keys that a fault at `named` is about: the fault may be inside a value, or be that
    something is missing beside others."""
    while named:
        found = [key for key in values if key == named or key.startswith(f"{named}.")]
        if found:
            return found
        named = named.rpartition(".")[0]
    raise AssertionError("a fault is about something that was set")
