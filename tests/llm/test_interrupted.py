"""An interrupt while the SDK loads: nothing is asked any more, and the next request is answered."""

from __future__ import annotations

import threading

import pytest

from agentcli.errors import TurnInterrupted
from agentcli.llm.catalog import Catalog
from agentcli.llm.client import ModelClient
from agentcli.llm.protocols.anthropic_messages import AnthropicMessages
from agentcli.llm.protocols.chat_completions import ChatCompletions
from agentcli.llm.protocols.responses import Responses
from agentcli.llm.spending import CallBudget
from agentcli.llm.wire_protocol import Endpoint
from agentcli.messages import Message, Request
from agentcli.settings import LLMSettings
from tests.conftest import LIMIT_S
from tests.server import Reply

HELLO = Request([Message.user_message("hello")])


def slow(provider: type) -> type:
    """`provider`, whose SDK takes until `loaded` is set to load."""

    class Slow(provider):  # type: ignore[misc]
        def __init__(self, endpoint: Endpoint) -> None:
            super().__init__(endpoint)
            self.loading, self.loaded = threading.Event(), threading.Event()

        def connect(self) -> None:
            self.loading.set()
            assert self.loaded.wait(LIMIT_S)
            super().connect()

    return Slow


@pytest.mark.parametrize("warm", [True, False], ids=["warming up", "cold"])
@pytest.mark.parametrize(
    ("provider", "path"),
    [(ChatCompletions, "/v1"), (Responses, "/v1"), (AnthropicMessages, "")],
    ids=["chat", "responses", "anthropic"],
)
def test_a_request_that_was_given_up_while_the_sdk_loads_is_never_sent(serve, provider, path, warm):
    server = serve([Reply("Only once.")])
    slow_one = slow(provider)(Endpoint("p", "m", f"{server.url}{path}", "sk-test-0123456789abcdef"))
    llm = ModelClient(slow_one, "p/m", LLMSettings(), Catalog({}))
    if warm:
        llm.warm_up()
    before = threading.enumerate()

    def interrupt(progress: object) -> None:
        assert slow_one.loading.wait(LIMIT_S)
        raise TurnInterrupted("interrupted", 130)

    def record(event):
        return event

    with pytest.raises(TurnInterrupted):
        llm.complete(HELLO, interrupt, CallBudget(None), record)
    slow_one.loaded.set()
    for thread in threading.enumerate():
        if thread not in before:
            thread.join(LIMIT_S)
            assert not thread.is_alive()
    assert server.requests == []
    reply = llm.complete(HELLO, lambda progress: None, CallBudget(None), record)
    assert reply.text == "Only once."
    assert len(server.requests) == 1
