"""What servers are asked about their models, and where they are."""

from __future__ import annotations

import json
import threading

import pytest

from agentcli.errors import ConfigError
from agentcli.llm.probing import chats
from agentcli.llm.providers.ollama import address
from agentcli.llm.registry import Providers
from agentcli.settings import ProviderSettings
from tests.server import Call, Reply, Usage
from tests.server.loopback import Answer

WINDOW = 8_192
_LLAMACPP = {"default_generation_settings": {"n_ctx": WINDOW}}
_LMSTUDIO = {"type": "llm", "state": "loaded", "max_context_length": 131_072}
SERVERS = {
    "vllm": {"/v1/models": {"data": [{"id": "m", "max_model_len": WINDOW}]}},
    "sglang": {"/v1/models": {"data": [{"id": "m", "max_model_len": WINDOW}]}},
    "llamacpp": {"/props": _LLAMACPP},
    "lmstudio": {
        "/api/v0/models": {
            "data": [
                {"id": "e", "type": "embeddings", "state": "not-loaded"},
                {"id": "m", **_LMSTUDIO, "loaded_context_length": WINDOW},
            ]
        }
    },
    "ollama": {"/api/ps": {"models": [{"name": "m:latest", "context_length": WINDOW}]}},
}
"""By provider, the pages on which servers tell the window of the model `m`."""
LISTS = {
    "llamacpp": {"id": "m", "owned_by": "llamacpp", "meta": {"n_ctx_train": 131_072}},
    "lmstudio": {"id": "m", "owned_by": "organization_owner"},
    "ollama": {"id": "m", "owned_by": "library"},
}
"""How those list it that tell the window elsewhere."""


def configure(agent, **addresses: str) -> None:
    settings = agent.home / ".config" / "agent" / "config.toml"
    settings.parent.mkdir(parents=True)
    text = [f'[providers.{name}]\nbase_url = "{url}"\n' for name, url in addresses.items()]
    settings.write_text("".join(text))


@pytest.mark.parametrize("provider", SERVERS)
@pytest.mark.parametrize("known", [True, False], ids=["known", "own"])
def test_a_request_fits_the_window_that_the_server_tells(agent, serve, provider, known):
    pages = dict(SERVERS[provider])
    if not known:
        pages = {"/v1/models": {"data": [LISTS.get(provider)]}, **pages}
    server = serve([Reply("Done.")], keys=(), pages=pages, window=WINDOW)
    name = provider if known else "own"
    configure(agent, **{name: f"{server.url}/v1"})
    done = agent("run", "-m", f"{name}/m", "x")
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert server.requests[0].body["max_tokens"] < WINDOW
    shown = json.loads(agent("context", "--json").stdout)
    assert shown["window_tokens"] == WINDOW


@pytest.mark.parametrize(
    "page",
    [
        Answer([b"<html>hello</html>"], content_type="text/html"),
        Answer([b"[1, 2]"]),
        {"default_generation_settings": {"n_ctx": "many"}, "chat_template_caps": []},
        Answer([b"no"], status=401),
        Answer([b"{"]),
    ],
)
def test_a_server_that_tells_something_else_is_used_as_if_not_asked(agent, serve, page):
    server = serve([Reply("Done.")], keys=(), pages={"/props": page})
    configure(agent, llamacpp=f"{server.url}/v1")
    assert agent("run", "-m", "llamacpp/m", "x").stdout == "Done.\n"


def test_a_server_that_does_not_tell_is_not_waited_for(agent, serve):
    told = threading.Event()
    page = Answer([b"{}"], gate=told)
    server = serve([Reply("Done.")], keys=(), pages={"/props": page})
    configure(agent, llamacpp=f"{server.url}/v1")
    assert agent("run", "-m", "llamacpp/m", "x").stdout == "Done.\n"
    told.set()


def test_the_user_has_the_last_word_on_the_window(agent, serve):
    server = serve([Reply("Done.")], keys=(), pages=SERVERS["vllm"])
    configure(agent, vllm=f"{server.url}/v1")
    agent("run", "-m", "vllm/m", "--set", "model.context_tokens=100000", "x")
    assert server.requests[0].body["max_tokens"] == 16_384


def test_without_a_choice_a_model_that_can_talk_is_used_and_one_in_memory_rather(agent, serve):
    listing = {"data": [{"id": name} for name in ("text-embedding-nomic", "a", "b", "bge-m3")]}
    states = {"data": [{"id": name, "type": "llm", "state": "not-loaded"} for name in ("a", "b")]}
    pages = {"/v1/models": listing}
    server = serve([Reply("A."), Reply("B.")], sessions=2, keys=(), pages=pages)
    nowhere = dict.fromkeys(("ollama", "vllm", "llamacpp", "sglang"), "http://127.0.0.1:9/v1")
    configure(agent, lmstudio=f"{server.url}/v1", **nowhere)
    assert agent("run", "x").stdout == "A.\n"
    assert agent("models").stdout == "lmstudio/a\nlmstudio/b\n"
    states["data"][1]["state"] = "loaded"
    pages["/api/v0/models"] = states
    agent("run", "x")
    assert [request.body["model"] for request in server.requests] == ["a", "b"]


@pytest.mark.parametrize(
    ("host", "meant"),
    [
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0:1234", "http://127.0.0.1:1234/v1"),
        (":1234", "http://127.0.0.1:1234/v1"),
        ("gpu.lan", "http://gpu.lan:11434/v1"),
        ("http://gpu.lan", "http://gpu.lan:80/v1"),
        ("https://gpu.lan/ollama/", "https://gpu.lan:443/ollama/v1"),
        ("[::1]:1234", "http://[::1]:1234/v1"),
    ],
)
def test_ollama_host_may_be_less_than_an_address(host, meant):
    assert address(host) == meant
    assert Providers({}, {"OLLAMA_HOST": host}).endpoint("ollama/m").base_url == meant


@pytest.mark.parametrize(
    ("variable", "value", "model", "meant"),
    [
        ("GROQ_BASE_URL", "https://gw.example", "groq/m", "https://gw.example/openai/v1"),
        ("DEEPSEEK_BASE_URL", "https://gw.example/x", "deepseek/m", "https://gw.example/x"),
        ("VLLM_BASE_URL", "http://gpu:8000/v1", "vllm/m", "http://gpu:8000/v1"),
        ("LITELLM_PROXY_API_BASE", "http://gw:4000", "litellm/m", "http://gw:4000"),
    ],
)
def test_the_usual_variable_names_a_providers_address(variable, value, model, meant):
    environ = {
        variable: value,
        "GROQ_API_KEY": "k",
        "DEEPSEEK_API_KEY": "k",
        "LITELLM_API_KEY": "k",
    }
    assert Providers({}, environ).endpoint(model).base_url == meant
    said = ProviderSettings(base_url="https://settings.example/v1")
    configured = {model.partition("/")[0]: said}
    assert Providers(configured, environ).endpoint(model).base_url == said.base_url


def test_a_variable_without_an_address_is_named():
    with pytest.raises(ConfigError, match="OLLAMA_HOST: 'gpu:many' is not an address"):
        Providers({}, {"OLLAMA_HOST": "gpu:many"}).endpoint("ollama/m")


@pytest.mark.parametrize(
    "name", ["text-embedding-3-large", "nomic-embed-text", "BAAI/bge-m3", "all-minilm"]
)
def test_a_model_for_vectors_is_told_by_its_name(name):
    assert not chats(name)
    assert not chats("m", "embeddings")
    assert chats("qwen3-coder")


@pytest.mark.parametrize("tool_format", ["auto", "native"])
def test_a_template_that_does_not_know_tools_is_told_of_them_in_the_text(agent, serve, tool_format):
    props = {**_LLAMACPP, "chat_template_caps": {"supports_tools": False}}
    call = (
        '<tool_call>{"name": "bash", "arguments": {"command": "echo seen > seen.txt"}}</tool_call>'
    )
    replies = [Reply(call), Reply("Done.")] if tool_format == "auto" else [Reply("Done.")]
    server = serve(replies, keys=(), pages={"/props": props})
    configure(agent, llamacpp=f"{server.url}/v1")
    chosen = f"providers.llamacpp.tool_format={tool_format}"
    done = agent("run", "-m", "llamacpp/m", "--set", chosen, "look")
    assert done.stdout == "Done.\n"
    told_as_text = tool_format == "auto"
    assert ("does not know tools" in done.stderr) is told_as_text
    assert ("tools" not in server.requests[0].body) is told_as_text
    assert (agent.workspace / "seen.txt").exists() is told_as_text


def test_a_server_that_cuts_prompts_is_told_of_once(agent, serve):
    listing = Call("bash", {"command": "seq 1 2500"})
    replies = [Reply(calls=[listing], usage=Usage(3_000, 20)) for _ in range(4)]
    server = serve([*replies, Reply("Done.")], keys=())
    configure(agent, ollama=f"{server.url}/v1")
    done = agent("run", "-m", "ollama/m", "--set", "model.context_tokens=200000", "count")
    assert done.stdout == "Done.\n"
    assert done.stderr.count("OLLAMA_CONTEXT_LENGTH") == 1
