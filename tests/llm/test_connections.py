"""The way to a server: proxies, certificates, the parts of an address."""

from __future__ import annotations

import os

import httpx2
import pytest

from agentcli.errors import ConfigError
from agentcli.llm.bounded_http import http_client
from agentcli.llm.connections import certificates, http_failure, proxy_for
from agentcli.llm.wire_protocol import Endpoint, ReplySize
from tests.conftest import MODELS
from tests.server import Reply

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
