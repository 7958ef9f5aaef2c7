"""The way to a server: proxies, certificates, the parts of an address, and clouds in between."""

from __future__ import annotations

import base64
import json
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import httpx2
import pytest

from agentcli.errors import ConfigError
from agentcli.llm.bounded_http import http_client
from agentcli.llm.connections import certificates, http_failure, proxy_for
from agentcli.llm.wire_protocol import Endpoint, ReplySize
from tests.conftest import MODELS
from tests.server import ModelServer, Reply
from tests.server.loopback import Answer, Incoming, Loopback

VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture
def proxies(monkeypatch):
    """Sets the variables about proxies, and no others."""

    def given(**variables: str) -> None:
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
            monkeypatch.delenv(name.upper(), raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return given


def _url(address: str) -> str | None:
    proxy = proxy_for(address)
    return proxy.url if proxy else None


def test_a_proxy_is_that_of_the_scheme_or_the_one_for_all(proxies):
    proxies(HTTPS_PROXY="http://one:1", ALL_PROXY="socks5://two:2")
    assert _url("https://model.example/v1") == "http://one:1"
    assert _url("http://model.example/v1") == "socks5://two:2"
    proxies(https_proxy="one:1")
    assert _url("https://model.example/v1") == "http://one:1"
    assert _url("http://model.example/v1") is None


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "[::1]"])
def test_this_machine_is_reached_directly(proxies, host):
    proxies(ALL_PROXY="http://one:1")
    assert _url(f"http://{host}:8000/v1") is None


@pytest.mark.parametrize(
    ("exempt", "address", "direct"),
    [
        ("*", "http://a.example", True),
        ("b.example, a.example", "http://a.example", True),
        ("a.example", "http://x.a.example", True),
        (".a.example", "http://x.a.example", True),
        ("*.a.example", "http://x.a.example", True),
        ("a.example", "http://ba.example", False),
        ("a.example:80", "http://a.example:80", True),
        ("a.example:80", "http://a.example:81", False),
        ("10.0.0.0/8", "http://10.1.2.3:8000", True),
        ("10.0.0.0/8", "http://11.1.2.3:8000", False),
        ("fd00::/8", "http://[fd00::1]:8000", True),
        ("[fd00::1]", "http://[fd00::1]:8000", True),
        ("fd00::1", "http://[fd00::1]:8000", True),
        ("[fd00::1]:80", "http://[fd00::1]:8000", False),
        ("http://a.example", "http://a.example", True),
        (",, ,", "http://a.example", False),
        ("10.0.0.0/99,[::,:", "http://a.example", False),
    ],
)
def test_no_proxy_exempts_names_addresses_and_networks(proxies, exempt, address, direct):
    proxies(ALL_PROXY="http://one:1", NO_PROXY=exempt)
    assert (_url(address) is None) == direct


def test_a_proxy_that_fails_is_named_without_its_password(proxies):
    proxies(HTTPS_PROXY="http://me:secret@one.example:8080")
    failure = http_failure("https://model.example/v1", httpx2.ConnectError("refused"))
    assert failure is not None
    assert "through the proxy http://one.example:8080 (HTTPS_PROXY)" in failure.message
    assert "NO_PROXY=model.example" in failure.hint
    assert "secret" not in failure.message + failure.hint


def test_a_certificate_of_its_own_needs_its_ca(proxies):
    proxies()
    what = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate"
    failure = http_failure("https://model.example/v1", httpx2.ConnectError(what))
    assert failure is not None
    assert "SSL_CERT_FILE" in failure.hint


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_certificates_that_cannot_be_loaded_are_named(monkeypatch, tmp_path, content):
    path = tmp_path / "company.pem"
    if content:
        path.write_text(content)
    monkeypatch.setitem(os.environ, "SSL_CERT_FILE", str(path))
    with pytest.raises(ConfigError, match="SSL_CERT_FILE") as caught:
        certificates()
    assert str(path) in caught.value.message


@pytest.mark.parametrize("proxy", ["ftp://me:secret@one.example", "http://[::1", "socks4://x:1"])
def test_a_proxy_that_cannot_be_used_is_named(proxies, proxy):
    proxies(ALL_PROXY=proxy)
    endpoint = Endpoint("lab", "x", "http://model.example/v1", None)
    with pytest.raises(ConfigError, match="ALL_PROXY") as caught:
        http_client(endpoint, ReplySize())
    assert "secret" not in caught.value.message


def test_what_was_copied_with_an_address_or_a_key_is_left_out(agent, serve):
    server = serve([Reply("Hi")])
    agent.use(server)
    agent.env["OPENAI_BASE_URL"] = f' "{server.url}/v1"\n'
    agent.env["OPENAI_API_KEY"] = f'"{agent.env["OPENAI_API_KEY"]}"\n'
    done = agent("run", "x")
    assert (done.returncode, done.stdout) == (0, "Hi\n"), done.stderr


def test_a_socks_proxy_for_other_hosts_does_not_matter(agent, serve):
    agent.env |= {"ALL_PROXY": "socks5://127.0.0.1:9", "NO_PROXY": "localhost,127.0.0.1"}
    done = agent.use(serve([Reply("Hi")]))("run", "x")
    assert (done.returncode, done.stdout) == (0, "Hi\n"), done.stderr


def test_a_socks_proxy_needs_a_package_which_is_named(agent):
    agent.env |= {"ALL_PROXY": "socks5h://127.0.0.1:9", "OPENAI_API_KEY": "sk-0123456789abcdef"}
    agent.env["OPENAI_BASE_URL"] = "http://models.invalid/v1"
    done = agent("run", "x", "-m", "openai-chat/any")
    assert done.returncode == 3
    assert "ALL_PROXY" in done.stderr
    assert "socksio" in done.stderr


ADDRESSES = {
    "/v1?api-version=2025-01-01": "/v1/chat/completions?api-version=2025-01-01",
    "/v1/": "/v1/chat/completions",
    "/v1/chat/completions": "/v1/chat/completions",
}


@pytest.mark.parametrize(("given", "asked"), ADDRESSES.items())
def test_an_address_may_have_a_query_or_the_whole_path(agent, serve, given, asked):
    server = serve([Reply("Hi")])
    agent.use(server).env["OPENAI_BASE_URL"] = f"{server.url}{given}"
    done = agent("run", "x")
    assert (done.returncode, done.stdout) == (0, "Hi\n"), done.stderr
    assert server.requests[0].path == asked


@pytest.mark.parametrize("given", ["", "/", "/v1", "/v1/messages"])
def test_an_address_of_anthropics_api_may_end_in_its_version(agent, serve, given):
    server = serve([Reply("Hi")])
    agent.use(server, MODELS["anthropic_messages"]).env["ANTHROPIC_BASE_URL"] = server.url + given
    done = agent("run", "x")
    assert (done.returncode, done.stdout) == (0, "Hi\n"), done.stderr
    assert server.requests[0].path == "/v1/messages"


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
