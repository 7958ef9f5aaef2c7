"""The environment that commands see."""

from __future__ import annotations

from collections.abc import Collection, Mapping

_QUIET = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "EDITOR": "true",
    "VISUAL": "true",
    "GIT_EDITOR": "true",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "PYTHONUNBUFFERED": "1",
    "TERM": "dumb",
    "NO_COLOR": "1",
}


def command_environment(
    environ: Mapping[str, str], secret_names: Collection[str], session_id: str
) -> dict[str, str]:
    """The user's environment without the keys of models, with nothing that waits for a person."""
    kept = {name: value for name, value in environ.items() if name not in secret_names}
    return {**kept, **_QUIET, "AGENT": "1", "AGENT_SESSION_ID": session_id}
