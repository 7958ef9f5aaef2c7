"""A command-line coding assistant, and the API by which programs drive it: see docs/python.md."""

from importlib import import_module

__version__ = "0.1.0"

_HOMES = {
    "Session": "agentcli.api.session",
    "SessionOptions": "agentcli.api.options",
    "Settings": "agentcli.settings",
    "TurnResult": "agentcli.agent.ending",
    "run": "agentcli.api.session",
    "tool": "agentcli.api.function_tools",
}
__all__ = ["__version__", "errors", "events", *_HOMES]


def __getattr__(name: str) -> object:
    """Load a name when it is first used: `agent --version` needs none of them."""
    if name in ("errors", "events"):
        return import_module(f"agentcli.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'agentcli' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
