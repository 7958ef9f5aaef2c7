"""A model server for tests: the providers' real wire protocols on loopback, and their strictness.

Give it the model's turns, point a client at its `url`, then look at what the client has done:

    with ModelServer([Reply(calls=[Call("bash", {"command": "ls"})]), Reply("Done.")]) as server:
        ...
    assert server.violations == [] and server.prefix_breaks() == []

`violations` holds everything a real provider would have refused, `requests` what was asked. With
`provider="deepseek"` it is that provider: its own rules beside its wire format's, and its manners.
"""

from .script import (
    Altered,
    Call,
    Dropped,
    Entry,
    Hang,
    HttpError,
    LengthStop,
    Paused,
    Play,
    Raw,
    Recorded,
    Redirect,
    Reply,
    Step,
    StreamError,
    Trickle,
    Truncated,
    Usage,
    read_script,
)
from .server import ModelServer

__all__ = [
    "Altered",
    "Call",
    "Dropped",
    "Entry",
    "Hang",
    "HttpError",
    "LengthStop",
    "ModelServer",
    "Paused",
    "Play",
    "Raw",
    "Recorded",
    "Redirect",
    "Reply",
    "Step",
    "StreamError",
    "Trickle",
    "Truncated",
    "Usage",
    "read_script",
]
