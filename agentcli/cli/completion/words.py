"""Values that can be completed: sessions, models, skills, settings."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agentcli.app.configuration.store import use_configured_store
from agentcli.system.homes import state_home
from agentcli.system.programs import user_environ

_MOST_SESSIONS = 50
_CONNECT_S = 0.05
_LONGEST_TITLE = 60


def words_of_kind(kind: str, tree: Mapping[str, Any], current: str) -> list[tuple[str, str]]:
    """Return the words with their descriptions; none for a kind whose values can't be known."""
    if "|" in kind:
        return [(choice, "") for choice in kind.split("|")]
    match kind:
        case "sessions":
            return list(_sessions())
        case "models":
            return list(_models(tree["models"]))
        case "skills":
            return list(_skills())
        case "keys":
            return list(tree["keys"].items())
        case "assignments":
            return [(f"{key}=", said) for key, said in tree["keys"].items()]
    return []


def _sessions() -> Iterator[tuple[str, str]]:
    """Yield the sessions of this folder, the most recently used first, by name if they have one."""
    from agentcli.sessions.search.finder import offered

    use_configured_store()
    home = state_home(user_environ())
    for found in islice(offered(home, Path.cwd().resolve()), _MOST_SESSIONS):
        state = found.state
        title = " ".join(state.title.split())[:_LONGEST_TITLE]
        shown = "".join(char if char.isprintable() else " " for char in title)
        yield (state.name or found.folder.name, shown)


def _skills() -> Iterator[tuple[str, str]]:
    """Yield the skills known in this folder."""
    from agentcli.cli.skill_common import known_skills

    for skill in known_skills().found:
        yield skill.name, "".join(c for c in skill.description if c.isprintable())[:_LONGEST_TITLE]


def _models(catalogued: Mapping[str, list[str]]) -> Iterator[tuple[str, str]]:
    """Yield catalogued models of providers with a key, and models of local servers that answer."""
    from agentcli.app.configuration.keys import stored_keys
    from agentcli.llm.provider import known_providers
    from agentcli.llm.registry import Providers

    environ = user_environ()
    known = known_providers()
    keys = {**stored_keys(environ).values, **environ}
    for name, models in catalogued.items():
        if keys.get(known[name].key_env or ""):
            yield from ((f"{name}/{model}", "") for model in models)
    if any(_listens(kind.base_url) for kind in known.values() if kind.local):
        yield from ((name, "on this machine") for name in Providers({}, environ).local_models())


def _listens(address: str) -> bool:
    parts = urlsplit(address)
    try:
        with socket.create_connection((parts.hostname or "", parts.port or 80), _CONNECT_S):
            return True
    except OSError:
        return False
