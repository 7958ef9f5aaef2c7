"""Loads the settings in force in a folder, including what the folder may add to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from agentcli.app.configuration.config import (
    LoadedSettings,
    beyond_tightening,
    load_settings,
    project_values,
)
from agentcli.app.hooks import NO_PROJECT_HOOKS, ProjectHooks
from agentcli.errors import ConfigError, UsageError
from agentcli.security.trust import (
    AGENT_FOLDER,
    COMMAND_FOLDER,
    HOOK_FOLDER,
    PROJECT_CONFIG,
    TOOL_SERVERS,
    Fingerprint,
    TrustState,
    TrustStore,
    fingerprint,
)
from agentcli.system.homes import state_home
from agentcli.workspace.names import PROJECT_SKILL_FOLDERS

Answer = Literal["yes", "no", "never"]
Asker = Callable[[Fingerprint, TrustState], Answer]
STORE = "trust.json"


@dataclass(frozen=True)
class Loaded:
    """Settings including what the folder may add to them, and its hooks if it is trusted."""

    settings: LoadedSettings
    project_hooks: ProjectHooks
    project_agents: Mapping[str, bytes] = field(default_factory=dict)
    """The files that define agents, by path, if the folder is trusted."""


def load_with_trust(
    environ: Mapping[str, str],
    workspace: Path,
    flags: Mapping[str, Any] | None = None,
    ask: Asker | None = None,
    on_fault: Callable[[ConfigError], None] | None = None,
) -> Loaded:
    """Load the settings in force in `workspace`. If it brings along something that is not trusted
    in its present state, `ask` decides; without `ask`, that is left out with a notice. What takes
    effect is exactly what was compared: each file is read once. Raises ConfigError for wrong
    settings, unless `on_fault` takes them."""
    found = fingerprint(workspace)
    store = trust_store(environ)
    state = store.state_of(found) if found.files or found.fault else TrustState()
    trusted = state.trusted
    askable = _wants_trust(found) and not state.never and not inside_session(environ)
    if ask is not None and askable and not trusted:
        answer = ask(found, state)
        trusted = answer == "yes"
        if trusted:
            store.trust(found)
        elif answer == "never":
            store.never_ask(workspace)
            state = replace(state, never=True)
    if not trusted:
        loaded = load_settings(environ, workspace, flags, on_fault=on_fault)
        notices = () if state.never else _notices(found, state, loaded.notices)
        return Loaded(replace(loaded, notices=notices), NO_PROJECT_HOOKS)
    loaded = load_settings(
        environ,
        workspace,
        flags,
        trusted=found.contents.get(PROJECT_CONFIG, b""),
        servers=found.contents.get(TOOL_SERVERS, b""),
        on_fault=on_fault,
    )
    hooks, agents = (
        {name: data for name, data in found.contents.items() if name.startswith(f"{folder}/")}
        for folder in (HOOK_FOLDER, AGENT_FOLDER)
    )
    return Loaded(loaded, ProjectHooks(loaded.project_hooks, hooks, found.runnable), agents)


def trust_store(environ: Mapping[str, str]) -> TrustStore:
    return TrustStore(state_home(environ) / STORE)


def is_trusted(environ: Mapping[str, str], folder: Path) -> bool:
    """Whether what `folder` brings along is trusted in its present state. Raises ConfigError."""
    return trust_store(environ).state_of(fingerprint(folder)).trusted


def inside_session(environ: Mapping[str, str]) -> bool:
    return bool(environ.get("AGENT_SESSION_ID"))


def require_outside_session(environ: Mapping[str, str], why: str) -> None:
    """Raise UsageError, with `why`, inside a session: only the user decides this."""
    if inside_session(environ):
        raise UsageError(why, hint="run it in a shell of your own")


def _wants_trust(found: Fingerprint) -> bool:
    """Whether the folder has more than settings that only tighten."""
    if any(name != PROJECT_CONFIG for name in found.files):
        return True
    try:
        return any(beyond_tightening(settings_of(found)))
    except ConfigError:
        # Settings that can't be read take no effect, so there is nothing to ask about.
        return False


def settings_of(found: Fingerprint) -> dict[str, Any]:
    text = found.contents.get(PROJECT_CONFIG, b"")
    return project_values(text, str(found.workspace / PROJECT_CONFIG))


def _notices(found: Fingerprint, state: TrustState, notices: Any) -> tuple[str, ...]:
    if found.fault:
        return (*notices, f"{found.workspace} can't be trusted: {found.fault}")
    if state.changed:
        names = ", ".join(state.changed)
        said = (
            f"{found.workspace} is no longer trusted, as these files changed: {names}. Only "
            "what is stricter than your settings takes effect; see agent trust"
        )
        return (*notices, said)
    if not notices and _wants_trust(found):
        return (_left_out(found),)
    return tuple(notices)


def _left_out(found: Fingerprint) -> str:
    """Return a sentence on a folder that nobody has trusted yet."""
    kinds = {
        "hooks": any(name.startswith(f"{HOOK_FOLDER}/") for name in found.files),
        "commands": any(name.startswith(f"{COMMAND_FOLDER}/") for name in found.files),
        "agents": any(name.startswith(f"{AGENT_FOLDER}/") for name in found.files),
        "tool servers": TOOL_SERVERS in found.files,
        "skills with scripts": any(name.startswith(PROJECT_SKILL_FOLDERS) for name in found.files),
        "settings": PROJECT_CONFIG in found.files,
    }
    *most, last = [kind for kind, is_there in kinds.items() if is_there] or ["files"]
    what = f"{', '.join(most)} and {last}" if most else last
    return f"{found.workspace} is not trusted, so its {what} take no effect; see agent trust"
