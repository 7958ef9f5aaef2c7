"""A model server for tests: the providers' real wire protocols on loopback, and their strictness.

Give it the model's turns, point a client at its `url`, then look at what the client has done:

    with ModelServer([Reply(calls=[Call("bash", {"command": "ls"})]), Reply("Done.")]) as server:
        ...
    assert server.violations == [] and server.prefix_breaks() == []

`violations` holds everything a real provider would have refused, `requests` what was asked. With
`provider="deepseek"` it is that provider: its own rules beside its wire format's, and its manners.
"""

from .script import Altered as Altered
from .script import Call as Call
from .script import Dropped as Dropped
from .script import Entry as Entry
from .script import Hang as Hang
from .script import HttpError as HttpError
from .script import LengthStop as LengthStop
from .script import Paused as Paused
from .script import Play as Play
from .script import Raw as Raw
from .script import Recorded as Recorded
from .script import Redirect as Redirect
from .script import Reply as Reply
from .script import Step as Step
from .script import StreamError as StreamError
from .script import Trickle as Trickle
from .script import Truncated as Truncated
from .script import Usage as Usage
from .script import read_script as read_script
from .server import ModelServer as ModelServer
