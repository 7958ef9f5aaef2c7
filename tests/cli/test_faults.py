"""A provider that misbehaves: a clear error, never a success, never half of a call."""

from __future__ import annotations

import threading

import pytest

from tests.conftest import MODELS
from tests.server import Call, Hang, NotJson, Redirect, Reply, StreamError, Truncated

RELEASED = threading.Event()
HALF = Reply("half", [Call("bash", {"command": "touch ran"})])
FAULTS = {
    "html": lambda elsewhere: NotJson(),
    "redirect": lambda elsewhere: Redirect(f"{elsewhere.url}/v1/chat/completions"),
    "closed": lambda elsewhere: Truncated(HALF, after=3),
    "cut": lambda elsewhere: Truncated(HALF, after=3, how="cut"),
    "reset": lambda elsewhere: Truncated(HALF, after=3, how="reset"),
    "error frame": lambda elsewhere: StreamError(HALF, after=3),
    "silent": lambda elsewhere: Hang(RELEASED),
    "falls silent": lambda elsewhere: Hang(RELEASED, HALF, after=3),
    "empty": lambda elsewhere: Reply(""),
    "filtered": lambda elsewhere: Reply("I can't", finish="content_filter"),
}


@pytest.fixture(autouse=True)
def release(serve):
    """Let servers that fell silent go before they are shut down."""
    RELEASED.clear()
    yield
    RELEASED.set()


@pytest.mark.parametrize("api", MODELS)
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_for_good_is_a_clear_error(agent, serve, api, stream, fault):
    elsewhere = serve()
    server = serve([FAULTS[fault](elsewhere)] * 3)
    agent.use(server, MODELS[api])
    provider = MODELS[api].split("/")[0]
    limit_s = 0.2 if "silent" in fault else 30
    done = agent(
        "run", "x",
        "--set", f"llm.first_byte_s={limit_s}",
        "--set", f"llm.gap_s={limit_s}",
        "--set", "llm.retries=1",
        "--set", "llm.retry_base_s=0",
        "--set", f"providers.{provider}.stream={str(stream).lower()}",
    )  # fmt: skip
    assert done.returncode == 4, done.stderr
    assert "error: " in done.stderr
    assert "agent resume" in done.stderr
    assert not (agent.workspace / "ran").exists()
    assert elsewhere.requests == []
    assert len(server.requests) <= 3
