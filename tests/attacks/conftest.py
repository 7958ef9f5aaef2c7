"""Places to attack."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.attacks.raids import Arena, make_arena


@pytest.fixture
def arena() -> Iterator[Callable[..., Arena]]:
    """`arena(layer, user)`: a home, a workspace and what is beside them."""
    with ExitStack() as stack:
        yield lambda layer, user="self": stack.enter_context(make_arena(layer, user))
