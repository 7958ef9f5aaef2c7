"""Settings: layers of TOML merged key by key, validated once, each value with its origin.

Layers, strongest first: managed file, flags, environment, project file, user file, defaults. A
project file comes with a cloned repository, so it may tighten what follows and nothing else, until
the user trusts the folder. Lists of what is forbidden, asked, or run as a hook only ever grow: each
layer adds its own.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from agentcli.app.setting_faults import in_words, place_of
from agentcli.errors import ConfigError
from agentcli.files.private import NotRegular, ownership_fault, read_regular
from agentcli.files.toml_text import LongKeyError, load_toml
from agentcli.llm.provider import protocol_names
from agentcli.settings import (
    HooksSettings,
    PriceSettings,
    ProviderSettings,
    ServerSettings,
    Settings,
    flatten,
)
from agentcli.system.homes import expanded

MANAGED_FILE = Path("/etc/agent/config.toml")
PROJECT_FILE = Path(".agent/config.toml")
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
    for the person about what was left out. `project_hooks`: event and command of each hook that
    the (trusted) project brought."""

    values: Settings
    origins: Mapping[str, str]
    notices: Sequence[str]
    project_hooks: frozenset[tuple[str, str]] = frozenset()


def user_file(environ: Mapping[str, str]) -> Path:
    """`$AGENT_CONFIG`, else `$XDG_CONFIG_HOME/agent/config.toml`."""
    if chosen := environ.get("AGENT_CONFIG"):
        return expanded(chosen)
    base = environ.get("XDG_CONFIG_HOME") or "~/.config"
    return expanded(base) / "agent" / "config.toml"


def rules_file(environ: Mapping[str, str]) -> Path:
    """What the person allowed always."""
    return user_file(environ).with_name("rules")


def resolve_workspace(folder: str | None) -> Path:
    """The folder to work in, absolute. Raises ConfigError when there is no such folder."""
    try:
        workspace = Path(folder or ".").expanduser().resolve(strict=True)
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"there is no folder {folder or 'to work in'}: {reason}", hint="see -C/--cd"
        ) from error
    if not workspace.is_dir():
        raise ConfigError(f"{workspace} is not a folder", hint="see -C/--cd")
    return workspace


def load_settings(
    environ: Mapping[str, str],
    workspace: Path,
    flags: Mapping[str, Any] | None = None,
    *,
    trusted: bytes | None = None,
    servers: bytes = b"",
    rule_fault: Callable[[str], str] = lambda rule: "",
    on_fault: Callable[[ConfigError], None] | None = None,
) -> LoadedSettings:
    """Merge all layers; `flags` maps dotted keys to values. `trusted`: the content of the project's
    file, if the folder is trusted, `servers` that of its .mcp.json. Without it the file is read
    here, may only tighten settings, and what is wrong in it is left out; `rule_fault` says what is
    wrong with a rule. What is wrong elsewhere, a file that can't be read, an unknown key or a wrong
    value, is told to `on_fault` and left out; without that, the first is raised as ConfigError,
    naming the layer and the key."""
    user, project = user_file(environ), workspace / PROJECT_FILE
    notices: list[str] = []

    def tell(origin: str, error: ConfigError) -> None:
        if trusted is None and origin == str(project):
            # It comes with whatever was cloned, so nothing in it stops a run.
            notices.append(f"{error.message}; left out")
        elif on_fault is None:
            raise error
        else:
            on_fault(error)

    layers = _Layers()
    layers.add(_sound(lambda: read_layer(user), str(user), tell), str(user))
    if trusted is None:
        values = _sound(lambda: read_layer(project, of_project=True), str(project), tell)
        values, left_out = _tightening(values, str(project), layers.values, rule_fault)
    else:
        values = _sound(lambda: _parsed(trusted, str(project)), str(project), tell)
        left_out = list(_contained_hooks(values, str(project)))
        values = _add_servers(layers, values, servers, workspace, notices)
        if values.pop(STORE, None) is not None:
            notices.append(f"{project}: {STORE} is not for a project to set")
    notices += left_out
    layers.add(values, str(project))
    shell = {key: environ[v] for v, key in ENVIRONMENT_KEYS.items() if environ.get(v)}
    layers.add(shell, _SHELL)
    layers.add(_sound(lambda: dict(flags or {}), "flags", tell), "flags")
    layers.add(_sound(lambda: read_layer(MANAGED_FILE), str(MANAGED_FILE), tell), str(MANAGED_FILE))
    settings = _validate(layers, tell)
    hooks = frozenset() if trusted is None else frozenset(_hook_commands(values))
    return LoadedSettings(settings, layers.origins, notices, hooks)


def _add_servers(
    layers: _Layers,
    values: dict[str, Any],
    servers: bytes,
    workspace: Path,
    notices: list[str],
) -> dict[str, Any]:
    """Add a layer for the `servers` of a trusted .mcp.json; gives the `values` of the project file
    without what is not for a project to set."""
    from agentcli.app.project_servers import FILE, of_file, permitted

    own = dict(layers.values)
    if servers:
        named = str(workspace / FILE)
        layers.add(permitted(of_file(servers, named, notices), own, named, notices), named)
    return permitted(values, own, str(workspace / PROJECT_FILE), notices)


def _sound(
    read: Callable[[], dict[str, Any]], origin: str, tell: Callable[[str, ConfigError], None]
) -> dict[str, Any]:
    """What `read` gives, less the keys that there are none of; `tell` is told of each."""
    found: dict[str, Any] = {}
    try:
        for key, value in read().items():
            try:
                _check_known(key, origin)
                found[key] = value
            except ConfigError as error:
                tell(origin, error)
    except ConfigError as error:
        tell(origin, error)
    return found


def _tightening(
    values: dict[str, Any], origin: str, lower: Mapping[str, Any], rule_fault: Callable[[str], str]
) -> tuple[dict[str, Any], list[str]]:
    """What of `values` a project may set by itself, and lines for the person about the rest."""
    ignored = list(beyond_tightening(values, lower))
    values = {key: value for key, value in values.items() if key not in ignored}
    notices = []
    if ignored:
        what = f"so its {', '.join(ignored)} {'take' if len(ignored) > 1 else 'takes'} no effect"
        notices.append(f"{origin} is not trusted, {what}; see agent trust")
    for key in _RULES:
        faults = {rule: rule_fault(rule) for rule in values.get(key, ())}
        if any(faults.values()):
            values[key] = [rule for rule, fault in faults.items() if not fault]
            first = next(filter(None, faults.values()))
            count = len(faults) - len(values[key])
            notices.append(f"{origin}: {key}: {first}; {count} left out")
    return values, notices


def _contained_hooks(values: dict[str, Any], origin: str) -> Iterator[str]:
    """Keep the hooks of a project in the sandbox, whatever it says; a line for the person where it
    said something else."""
    for key in (f"hooks.{event}" for event in HooksSettings.model_fields):
        hooks = values.get(key)
        if not isinstance(hooks, list):
            continue
        free = [hook for hook in hooks if isinstance(hook, dict) and hook.get("sandboxed") is False]
        values[key] = [{**hook, "sandboxed": True} if hook in free else hook for hook in hooks]
        if free:
            yield f"{origin}: {key}: sandboxed is not for a project to set; it stays on"


def project_values(text: bytes, origin: str) -> dict[str, Any]:
    """What a project's file sets, by dotted key. Raises ConfigError."""
    values = _parsed(text, origin)
    for key in values:
        _check_known(key, origin)
    return values


def check_setting(text: str, key: str, value: Any, origin: str) -> None:
    """Raises ConfigError if `key` is no setting, `value` none of its values, or the two don't go
    with what the TOML `text` sets beside. Mistakes elsewhere in it are left to whoever loads it,
    and so is what is missing beside `key`, which may be set next."""
    layers = _Layers()
    layers.add(_sound(lambda: _parsed(text.encode(), origin), origin, _overlook), origin)
    layers.values.pop(key, None)
    _validate(layers, _overlook)
    _check_known(key, origin)
    layers.add({key: value}, origin)
    _validate(layers, _refuse)


def _overlook(origin: str, error: ConfigError) -> None:
    """What is wrong there is not what is asked."""


def _refuse(origin: str, error: ConfigError) -> None:
    if not isinstance(error, _Missing):
        raise error


class _Missing(ConfigError):
    """A value that must be set beside others."""


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
        return key.strip(), load_toml(f"value = {raw}")["value"]
    except (ValueError, RecursionError):
        return key.strip(), raw


_KEYED_SECTIONS: dict[str, type[BaseModel]] = {
    "providers": ProviderSettings,
    "prices": PriceSettings,
    "mcp_servers": ServerSettings,
}
_FREE_TABLES = ("headers", "extra_body", "env")
_SHELL = "environment"
_RULES = ("security.deny", "security.ask")
_GROWING = frozenset({*_RULES, *(f"hooks.{name}" for name in HooksSettings.model_fields)})
"""Lists to which each layer adds: none can take away what another forbids or watches."""


class _Layers:
    """Values by dotted key as merged so far, and where each was set."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.origins: dict[str, str] = {}

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


def read_layer(path: Path, *, of_project: bool = False) -> dict[str, Any]:
    """The dotted keys of a TOML file; none when there is no such file. One that is not a project's
    must be the user's own or root's, and for nobody else to write."""
    try:
        text, facts = read_regular(path, _MAX_FILE_BYTES + 1, follow=True)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (NotRegular, IsADirectoryError) as error:
        raise ConfigError(f"{path} is not a file") from error
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}") from error
    if not of_project and (fault := ownership_fault(facts)):
        raise ConfigError(
            f"{path} can't be trusted: {fault}",
            hint=f"if it is as you left it: chown $USER {path}; chmod go-w {path}",
        )
    if len(text) > _MAX_FILE_BYTES:
        raise ConfigError(f"{path} is longer than {_MAX_FILE_BYTES:,} bytes")
    return _parsed(text, str(path))


def _parsed(text: bytes, origin: str) -> dict[str, Any]:
    """The dotted keys of TOML."""
    try:
        return dict(dotted(load_toml(text.decode())))
    except LongKeyError as error:
        raise ConfigError(f"{origin} can't be read: {error}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{origin} is not valid TOML: {error}") from error


def _hook_commands(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Event and command of each hook among values that were found valid."""
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
    """The tables and the name in them that a dotted key means; entries of keyed sections may hold
    dots (model names do)."""
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


_APPROVALS = ("plan", "ask", "auto-edit", "yolo")
"""From strict to lax."""
_CONFIRMS = ("always", "confirm_risky", "reach", "never")
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
        case "sandbox.read":
            return bool(value == "workspace")
        case "sandbox.layer":
            return value == current or value in _STRICTER_LAYERS.get(str(current), ())
    return key.startswith("tools.enable_") and value is False


def _at_least_as_strict(value: Any, current: Any, order: Sequence[str]) -> bool:
    return value in order and current in order and order.index(value) <= order.index(current)


def _defaults() -> dict[str, Any]:
    return dict(flatten(Settings()))


def _validate(layers: _Layers, tell: Callable[[str, ConfigError], None]) -> Settings:
    """The settings of `layers`; `tell` is told of wrong values, which are taken out of them."""
    while True:
        try:
            settings = Settings.model_validate(_nested(layers.values))
        except ValidationError as error:
            # What is wrong with a value is told before what is missing beside it.
            wrong_values = [fault for fault in error.errors() if fault["type"] != "missing"]
            faults = {place_of(fault): fault for fault in wrong_values or error.errors()}
            keys = _keys_of(next(iter(faults)), layers.values)
            origin = layers.origins[keys[0]]
            # Of the alternatives that a value may have, the last is the one with bounds.
            fault = [faults[place] for place in faults if _keys_of(place, layers.values) == keys][
                -1
            ]
            beside = fault["type"] == "missing" and not place_of(fault).startswith(f"{keys[0]}.")
            kind = _Missing if beside else ConfigError
            tell(origin, kind(f"{origin}: {in_words(fault, keys[0])}"))
        else:
            wrong = next(_beyond_types(settings), None)
            if wrong is None:
                return settings
            about, told, hint = wrong
            keys = [key for key in about if key in layers.values]
            origin = layers.origins[keys[0]]
            tell(origin, ConfigError(f"{origin}: {told}", hint=hint))
        for key in keys:
            del layers.values[key], layers.origins[key]


def _beyond_types(settings: Settings) -> Iterator[tuple[Sequence[str], str, str]]:
    """What is wrong with values that are of the right types: keys, what it is, a hint."""
    if settings.memory.low_water >= settings.memory.high_water:
        keys = ("memory.low_water", "memory.high_water")
        yield keys, "memory.low_water must be below memory.high_water", ""
    for name, provider in settings.providers.items():
        if provider.api and provider.api not in protocol_names():
            key = f"providers.{name}.api"
            told = f"{key}: there is no wire format {provider.api!r}"
            yield [key], told, f"there are {', '.join(protocol_names())}"


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in values.items():
        table = nested
        *parents, name = key_path(key)
        for parent in parents:
            table = table.setdefault(parent, {})
        table[name] = value
    return nested


def _keys_of(named: str, values: Mapping[str, Any]) -> list[str]:
    """The keys that a fault at `named` is about: it may lie within a value, or be that something
    is missing beside others."""
    while named:
        found = [key for key in values if key == named or key.startswith(f"{named}.")]
        if found:
            return found
        named = named.rpartition(".")[0]
    raise AssertionError("a fault is about something that was set")
