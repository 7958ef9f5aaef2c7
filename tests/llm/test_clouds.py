"""Claude in the clouds of Amazon and Google, which have the same format at other addresses."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import pytest

from tests.server import ModelServer, Reply
from tests.server.loopback import Answer, Incoming, Loopback

_NO_BOTO = find_spec("botocore") is None


@contextmanager
def cloud(
    server: ModelServer, model_of: Callable[[Incoming], str], form: Callable[[Answer], Answer]
) -> Iterator[str]:
    """A cloud before the model server: the model is in the path, not in the body."""

    def answer(incoming: Incoming) -> Answer:
        body = json.loads(incoming.raw)
        assert "model" not in body
        del body["anthropic_version"]
        inner = json.dumps({**body, "model": model_of(incoming), "stream": True}).encode()
        headers = {**incoming.headers, "x-api-key": "k", "anthropic-version": "2026-10-21"}
        return form(server._answer(Incoming("POST", "/v1/messages", headers, inner)))

    loopback = Loopback(answer, lambda: None)
    loopback.start()
    yield f"http://127.0.0.1:{loopback.server_port}"
    loopback.stop()


def test_vertex_takes_a_token_of_a_command(agent, serve):
    server = serve([Reply("Done.")], provider="anthropic")

    def model(incoming: Incoming) -> str:
        assert incoming.headers["authorization"] == "Bearer token-1"
        place, _, rest = incoming.path.partition("/publishers/anthropic/models/")
        assert place == "/v1/projects/mine/locations/us-east5"
        return rest.removesuffix(":streamRawPredict")

    with cloud(server, model, lambda whole: whole) as url:
        agent.env |= {
            "ANTHROPIC_VERTEX_PROJECT_ID": "mine",
            "ANTHROPIC_VERTEX_BASE_URL": f"{url}/v1",
            "CLOUD_ML_REGION": "us-east5",
        }
        token = 'providers.vertex.api_key_command="echo token-1"'
        done = agent("run", "-m", "vertex/claude-sonnet-5-5@20261020", "--set", token, "x")
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert server.requests[0].body["thinking"] == {"type": "adaptive", "display": "summarized"}


@pytest.mark.skipif(_NO_BOTO, reason="needs agentcli[bedrock]")
def test_bedrock_takes_an_api_key(agent, serve):
    server = serve([Reply("Done.")], provider="anthropic")

    def model(incoming: Incoming) -> str:
        assert incoming.headers["authorization"] == "Bearer key-1"
        return incoming.path.split("/")[2]

    def framed(whole: Answer) -> Answer:
        events = b"".join(whole.chunks).decode().split("\n\n")
        data = [each.partition("data: ")[2] for each in events if "data: " in each]
        kind = "application/vnd.amazon.eventstream"
        return Answer([_frame(each) for each in data], content_type=kind)

    with cloud(server, model, framed) as url:
        agent.env |= {
            "AWS_BEARER_TOKEN_BEDROCK": "key-1",
            "ANTHROPIC_BEDROCK_BASE_URL": url,
            "AWS_REGION": "eu-west-1",
        }
        done = agent("run", "-m", "bedrock/eu.anthropic.claude-opus-4-8", "x", "--effort", "low")
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert server.requests[0].body["output_config"] == {"effort": "low"}


def _frame(data: str) -> bytes:
    """A message of AWS's event streams, as in Amazon's documentation of the encoding."""
    headers = b""
    for name, value in ((":event-type", "chunk"), (":message-type", "event")):
        headers += struct.pack("!B", len(name)) + name.encode() + struct.pack("!BH", 7, len(value))
        headers += value.encode()
    payload = json.dumps({"bytes": base64.b64encode(data.encode()).decode()}).encode()
    prelude = struct.pack("!II", 16 + len(headers) + len(payload), len(headers))
    message = prelude + struct.pack("!I", zlib.crc32(prelude)) + headers + payload
    return message + struct.pack("!I", zlib.crc32(message))


@pytest.mark.skipif(not _NO_BOTO, reason="agentcli[bedrock] is installed")
def test_a_missing_extra_is_named(agent):
    done = agent("run", "-m", "bedrock/us.anthropic.claude-opus-4-8", "x")
    assert done.returncode != 0
    assert "pip install 'agentcli[bedrock]'" in done.stderr


def test_azure_without_an_address_says_how_to_give_one(agent):
    agent.env |= {"AZURE_OPENAI_API_KEY": "k"}
    done = agent("run", "-m", "azure/gpt", "x")
    assert done.returncode == 3
    assert "AZURE_OPENAI_ENDPOINT" in done.stderr
