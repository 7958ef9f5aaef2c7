"""Which model is asked, who takes over, what is recorded of it, what a reply is held to."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest

from agentcli.errors import ConfigError, LLMError, LLMErrorKind, TryAgainLater, TurnInterrupted
from agentcli.events.progress import Notice
from agentcli.llm.catalog import Catalog
from agentcli.llm.client import ModelClient
from agentcli.llm.protocols.anthropic_messages import AnthropicMessages
from agentcli.llm.protocols.chat_completions import ChatCompletions
from agentcli.llm.protocols.responses import Responses
from agentcli.llm.provider import Traits
from agentcli.llm.registry import Providers
from agentcli.llm.roles import (
    FALLBACK_ERRORS,
    ROLES,
    FallbackChain,
    Roles,
    Router,
    enforce_tool_choice,
)
from agentcli.llm.spending import CallBudget
from agentcli.llm.wire_protocol import Endpoint
from agentcli.messages import (
    FinishReason,
    Message,
    ProviderData,
    Reply,
    Request,
    ToolCall,
    ToolChoice,
    ToolSchema,
    Usage,
)
from agentcli.settings import LLMSettings, ProviderSettings
from tests.conftest import LIMIT_S
from tests.server import Reply as server_Reply

HELLO = Request([Message.user_message("hello")])
PICTURE = Request([Message.user_message("look", ["data:image/png;base64,AA"])])
CALL = ToolCall("1", "bash", "{}")


def reply(model: str = "m", *calls: ToolCall, text: str = "fine") -> Reply:
    finish = FinishReason.TOOL_CALLS if calls else FinishReason.STOP
    return Reply(text, calls, finish, Usage(10, 2), model, "r", cost_usd=0.5)


class World:
    """Models a, b, c, …: each answers with its name, or with the error it has in `errors`."""

    def __init__(self, chain: str = "abc", vision: str = "", blind: str = "") -> None:
        self.errors: dict[str, Exception] = {}
        self.windows = dict.fromkeys("abcde", 100_000)
        self.asked = ""
        self.recorded: list[object] = []
        router = Router(chain, vision, lambda name: name not in blind, self.windows.__getitem__)
        self.chain = FallbackChain(chain[0], self._build, router)

    def _build(self, name: str):
        if isinstance(error := self.errors.get(name), ConfigError):
            raise error
        world = self

        class Model:
            def complete(self, request, notify, call_budget, record):
                world.asked += name
                if error := world.errors.get(name):
                    raise error
                return reply(name)

        return Model()

    def ask(self, request: Request = HELLO) -> str:
        return self.chain.complete(request, print, self.recorded.append).model

    @property
    def switches(self) -> list[tuple[str, str, str]]:
        return [(event.from_model, event.to_model, event.reason) for event in self.recorded]


def failure(kind: LLMErrorKind = LLMErrorKind.OVERLOADED) -> LLMError:
    return LLMError(kind, f"it is {kind}", hint="wait")


def test_the_next_model_takes_over_until_the_turn_ends():
    world = World()
    world.errors = {"a": failure(), "b": failure(LLMErrorKind.BILLING)}
    assert [world.ask(), world.ask()] == ["c", "c"]
    assert world.asked == "abcc"
    assert world.switches == [("a", "b", "overloaded"), ("b", "c", "billing")]
    world.errors.clear()
    world.chain.begin_turn()
    assert world.ask() == "a"
    assert world.switches[2:] == [("c", "a", "main_again")]


@pytest.mark.parametrize("kind", LLMErrorKind)
def test_only_what_another_model_may_do_better_is_passed_on(kind):
    world = World("ab")
    world.errors = {"a": failure(kind)}
    if kind in FALLBACK_ERRORS:
        assert world.ask() == "b"
    else:
        with pytest.raises(LLMError, match=kind):
            world.ask()
        assert world.asked == "a"


def test_when_all_fail_the_first_error_is_told_and_the_others_named():
    world = World()
    world.errors = {
        "a": TryAgainLater(LLMErrorKind.RATE_LIMIT, "come back at noon", hint="resume then"),
        "b": ConfigError("no key for b"),
        "c": failure(LLMErrorKind.MODEL_NOT_FOUND),
    }
    with pytest.raises(TryAgainLater, match="noon") as caught:
        world.ask()
    assert caught.value.exit_code == 75
    assert caught.value.hint == (
        "resume then\n  tried after it:\n  b: no key for b\n  c: it is model_not_found"
    )


def test_a_main_model_that_is_misconfigured_is_never_replaced():
    world = World()
    world.errors = {"a": ConfigError("no key for a")}
    with pytest.raises(LLMError, match="no key for a") as caught:
        world.ask()
    assert caught.value.exit_code == 3
    assert world.asked == ""


@pytest.mark.parametrize("kind", [LLMErrorKind.CONTEXT_OVERFLOW, LLMErrorKind.BUDGET])
def test_a_request_that_is_too_much_is_not_the_fault_of_who_took_over(kind):
    world = World()
    world.errors = {"a": failure(), "b": failure(kind)}
    with pytest.raises(LLMError, match=kind):
        world.ask()
    assert world.asked == "ab"


def test_images_go_to_the_model_that_sees_and_back_when_they_are_gone():
    world = World("ab", vision="d", blind="a")
    assert [world.ask(), world.ask(PICTURE), world.ask(PICTURE), world.ask()] == list("adda")
    assert world.switches == [("a", "d", "images"), ("d", "a", "main_again")]
    world.errors = {"d": failure()}
    assert world.ask(PICTURE) == "b", "the next that sees"


def test_images_stay_with_a_main_model_that_may_take_them():
    assert World("ab", vision="d").ask(PICTURE) == "a"
    assert World("ab", blind="ab").ask(PICTURE) == "a", "there is no other"


def test_an_image_is_noticed_when_the_conversation_grows_or_is_replaced():
    world = World("a", vision="d", blind="a")
    messages = list(HELLO.messages)
    assert world.ask(Request(messages)) == "a"
    messages += PICTURE.messages
    assert world.ask(Request(messages)) == "d"
    messages.append(Message.user_message("more"))
    assert world.ask(Request(messages)) == "d"
    assert world.ask(Request([Message.user_message("new"), *HELLO.messages])) == "a"


def test_too_long_a_text_goes_to_the_first_window_that_it_fits_in():
    world = World()
    world.windows |= {"a": 8_000, "b": 16_000, "c": 32_000}
    long = replace(HELLO, estimated_tokens=20_000, max_output_tokens=4_000)
    assert world.ask(long) == "c"
    assert world.ask(replace(long, estimated_tokens=3_000)) == "a"
    assert world.switches == [("a", "c", "too_long"), ("c", "a", "main_again")]
    assert world.ask(replace(long, estimated_tokens=90_000)) == "a", "none is better"


def test_whoever_has_too_small_a_window_comes_last():
    world = World()
    world.windows |= {"b": 1_000}
    world.errors = {"a": failure()}
    long = replace(HELLO, estimated_tokens=20_000, max_output_tokens=4_000)
    assert world.ask(long) == "c"


def registry(**providers: object) -> Providers:
    settings = {name: ProviderSettings(**given) for name, given in providers.items()}
    return Providers(settings, {"OPENAI_API_KEY": "key"})


def models(chains: dict[str, Sequence[str]], **providers: object) -> Roles:
    return Roles(registry(**providers), chains, LLMSettings(), Catalog({}))


def test_each_role_has_its_own_chain_or_that_of_main():
    roles = models({"main": ["openai/a"], "vision": ["ollama/small", "openai/a"]})
    first = {name: roles.chain(name).model for name in ROLES}
    assert first == {**dict.fromkeys(ROLES, "openai/a"), "vision": "ollama/small"}
    assert roles.chain("judge") is roles.chain("judge")
    with pytest.raises(KeyError):
        roles.chain("poet")


def test_a_model_of_an_unknown_provider_is_refused_before_anything_is_asked():
    with pytest.raises(ConfigError, match="no provider for model 'nobody/x'"):
        models({"main": ["openai/a", "nobody/x"]})


def test_a_key_is_needed_when_its_model_is():
    chain = models({"main": ["anthropic/x"]}).chain("main")
    with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY"):
        chain.warm_up()


def answers(*replies: Reply):
    asked: list[Request] = []
    left = list(replies)

    def ask(request: Request) -> Reply:
        asked.append(request)
        return left.pop(0)

    return ask, asked


def test_calls_where_none_are_allowed_are_ignored_and_said_to_be():
    told: list[object] = []
    ask, _ = answers(reply("m", CALL))
    got = enforce_tool_choice(replace(HELLO, tool_choice=ToolChoice.NONE), ask, told.append)
    assert (got.tool_calls, got.finish_reason) == ((), FinishReason.STOP)
    assert told == [Notice("calls of bash are ignored: none were allowed in this reply")]


def test_a_required_call_is_asked_for_once_more_at_the_cost_of_both():
    required = replace(HELLO, tool_choice=ToolChoice.REQUIRED)
    ask, asked = answers(reply(text="I could call"), reply("m", CALL))
    got = enforce_tool_choice(required, ask, print)
    assert got.tool_calls == (CALL,)
    assert (got.usage.prompt_tokens, got.cost_usd) == (20, 1.0)
    assert [m.content for m in asked[1].messages][:2] == ["hello", "I could call"]
    with pytest.raises(LLMError, match="calls no tool"):
        enforce_tool_choice(required, answers(reply(), reply())[0], print)


class Refusing:
    """A provider that takes one key only."""

    def __init__(self, key: str, good: str) -> None:
        self.key, self.good = key, good

    def connect(self):
        pass

    def abort(self):
        pass

    def remedy(self, error, request):
        return None

    def read_back(self, reply):
        return reply

    def learn(self, changes):
        pass

    def answer(self, request):
        if self.key != self.good:
            raise LLMError(LLMErrorKind.AUTH, f"{self.key} is refused", hint="check the key")
        yield reply()


@pytest.mark.parametrize(("good", "made"), [("second", 1), ("none", 1)])
def test_a_refused_key_is_renewed_once_without_a_wait(good, made):
    keys = ["second", "third"]
    llm = ModelClient(
        Refusing("first", good),
        "p/m",
        LLMSettings(retries=0, retry_base_s=1e9),
        Catalog({}),
        lambda: Refusing(keys.pop(0), good),
    )
    if good == "second":
        assert (
            llm.complete(HELLO, lambda _: None, CallBudget(None), lambda event: event).text
            == "fine"
        )
    else:
        with pytest.raises(LLMError, match="second is refused"):
            llm.complete(HELLO, lambda _: None, CallBudget(None), lambda event: event)
    assert len(keys) == 2 - made


def test_a_key_command_that_fails_is_what_the_person_is_told():
    def fails():
        raise ConfigError("the command failed")

    llm = ModelClient(Refusing("first", ""), "p/m", LLMSettings(), Catalog({}), fails)
    with pytest.raises(LLMError, match="first is refused") as caught:
        llm.complete(HELLO, lambda _: None, CallBudget(None), lambda event: event)
    assert caught.value.hint == "the command failed"


def test_a_server_is_sent_what_is_added_and_not_what_is_dropped():
    endpoint = Endpoint("lab", "m", "http://x", None, extra_body={"top_k": 2}, stream=True)
    endpoint = replace(endpoint, drop_params=("temperature", "stream_options", "tool_choice"))
    tools = (ToolSchema("bash", "", {}),)
    request = replace(HELLO, temperature=0.0, tools=tools, tool_choice=ToolChoice.REQUIRED)
    body = ChatCompletions(endpoint)._body(request)
    assert b'"top_k":2' in body
    assert b"temperature" not in body
    assert b"stream_options" not in body
    assert b"tool_choice" not in body
    kept = ChatCompletions(replace(endpoint, drop_params=()))._body(request)
    assert b'"temperature":0.0' in kept
    assert b'"tool_choice":"required"' in kept


@pytest.mark.parametrize("choice", ToolChoice)
@pytest.mark.parametrize("api", [ChatCompletions, Responses, AnthropicMessages])
def test_the_tool_choice_is_said_in_the_words_of_each_protocol(api, choice):
    tools = (ToolSchema("bash", "", {"type": "object"}),)
    endpoint = Endpoint("lab", "m", "http://x", None)
    body = json.loads(api(endpoint)._body(replace(HELLO, tools=tools, tool_choice=choice)))
    word: object = choice.value
    if api is AnthropicMessages:
        word = {"type": {"required": "any"}.get(choice.value, choice.value)}
    assert body.get("tool_choice") == (None if choice is ToolChoice.AUTO else word)


def test_no_thinking_is_asked_for_where_it_would_be_refused():
    budgets = {"high": {"thinking": {"type": "enabled", "budget_tokens": 24_576}}}
    endpoint = Endpoint("lab", "m", "http://x", None, traits=Traits(efforts=budgets))
    thinking = {"type": "thinking", "thinking": "x", "signature": "y"}
    ours = ProviderData(AnthropicMessages(endpoint).origin, (thinking,))
    theirs = replace(ours, provider="AnthropicMessages lab/other")

    def thinks(request: Request) -> bool:
        body = json.loads(AnthropicMessages(endpoint)._body(replace(request, effort="high")))
        assert body["max_tokens"] > body.get("thinking", {}).get("budget_tokens", 0)
        return "thinking" in body

    def after(data: ProviderData | None, *said: str) -> Request:
        called = Message.from_tool_calls([CALL], provider_data=data)
        result = Message.tool_message("ok", CALL.id)
        return Request([*HELLO.messages, called, result, *map(Message.assistant_message, said)])

    assert thinks(HELLO)
    assert thinks(after(ours))
    assert not thinks(after(theirs))
    assert not thinks(after(None))
    assert thinks(after(theirs, "Done.")), "the turn after"
    assert not thinks(replace(HELLO, tool_choice=ToolChoice.REQUIRED))
    assert thinks(replace(HELLO, budget_usd=1.0, max_output_tokens=4_000))
    assert not thinks(replace(HELLO, budget_usd=1.0, max_output_tokens=1_000))


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
    server = serve([server_Reply("Only once.")])
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
