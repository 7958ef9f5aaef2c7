from agentcli import errors as errors
from agentcli import events as events
from agentcli.agent.ending import TurnResult as TurnResult
from agentcli.api.function_tools import tool as tool
from agentcli.api.options import SessionOptions as SessionOptions
from agentcli.api.session import Session as Session
from agentcli.api.session import run as run
from agentcli.settings import Settings as Settings

__version__: str
__all__ = [
    "Session",
    "SessionOptions",
    "Settings",
    "TurnResult",
    "__version__",
    "errors",
    "events",
    "run",
    "tool",
]
