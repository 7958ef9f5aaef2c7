"""Clients for tests of the server: one by hand, and the official ones, each reduced to what it made
of the answer. (The server itself needs none of these libraries.)"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from .server import ModelServer

if TYPE_CHECKING:
    import anthropic
    import openai

THOUGHT: dict[str, Any] = {
    "include": ["reasoning.encrypted_content"],
    "reasoning": {"summary": "auto"},
}
"""Settings that have the Responses protocol show its reasoning."""


class Said(NamedTuple):
    """What a client made of an answer."""

    text: str
    calls: list[tuple[str, Any]]
    reasoning: str
    finish: str | None


class Raw(NamedTuple):
    """An answer as it came over the wire."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The data of each server-sent event; the end mark is left as text."""
        found = [line[6:] for line in self.body.decode().split("\n") if line.startswith("data: ")]
        return [data if data == "[DONE]" else json.loads(data) for data in found]


HEADERS = {
    "content-type": "application/json",
    "authorization": "Bearer k",
    "anthropic-version": "2023-06-01",
}


def ask(server: ModelServer, path: str, body: object, **headers: str) -> Raw:
    """One request by hand; `body` may be bytes. Header names are written with underscores."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    extra = {name.replace("_", "-"): value for name, value in headers.items()}
    connection = http.client.HTTPConnection("127.0.0.1", int(server.url.rsplit(":", 1)[1]))
    try:
        connection.request("GET" if body == b"" else "POST", path, data, HEADERS | extra)
        answer = connection.getresponse()
        return Raw(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def sdk_errors(name: str) -> tuple[type[Exception], ...]:
    """Those of this name, of both SDKs, which are loaded by the tests that use them only."""
    import anthropic
    import openai

    return getattr(openai, name), getattr(anthropic, name)


def openai_client(server: ModelServer) -> openai.OpenAI:
    import openai

    return openai.OpenAI(api_key="k", base_url=server.base_url, max_retries=0)


def anthropic_client(server: ModelServer) -> anthropic.Anthropic:
    import anthropic

    return anthropic.Anthropic(api_key="k", base_url=server.url, max_retries=0)


def chat(server: ModelServer, streamed: bool) -> Said:
    client = openai_client(server)
    messages: Any = [{"role": "user", "content": "hi"}]
    if not streamed:
        choice = client.chat.completions.create(model="m", messages=messages).choices[0]
        found: Any = choice.message.tool_calls or []
        calls = [(call.function.name, json.loads(call.function.arguments)) for call in found]
        thought = getattr(choice.message, "reasoning_content", "")
        return Said(choice.message.content or "", calls, thought, choice.finish_reason)
    text, thought, finish = "", "", None
    parts: dict[int, list[str]] = {}
    for chunk in client.chat.completions.create(model="m", messages=messages, stream=True):
        if not chunk.choices:
            continue
        choice_now: Any = chunk.choices[0]
        text += choice_now.delta.content or ""
        thought += getattr(choice_now.delta, "reasoning_content", "")
        finish = choice_now.finish_reason or finish
        for piece in choice_now.delta.tool_calls or []:
            known = parts.setdefault(piece.index, [piece.function.name, ""])
            known[1] += piece.function.arguments
    return Said(text, [(name, json.loads(raw)) for name, raw in parts.values()], thought, finish)


def respond(server: ModelServer, streamed: bool) -> Said:
    client = openai_client(server).responses
    response: Any = None
    if streamed:
        for event in client.create(model="m", input="hi", store=False, stream=True, **THOUGHT):
            if event.type == "error":  # this client hands on what the others raise
                raise RuntimeError(event.message)
            if event.type in ("response.completed", "response.incomplete"):
                response = event.response
    else:
        response = client.create(model="m", input="hi", store=False, **THOUGHT)
    items = response.output
    calls = [(i.name, json.loads(i.arguments)) for i in items if i.type == "function_call"]
    thoughts = [part.text for i in items if i.type == "reasoning" for part in i.summary]
    return Said(response.output_text, calls, "".join(thoughts), response.status)


def message(server: ModelServer, streamed: bool) -> Said:
    client = anthropic_client(server)
    request: Any = {
        "model": "m",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "hi"}],
    }
    answer: Any
    if streamed:
        with client.messages.stream(**request) as stream:
            answer = stream.get_final_message()
    else:
        answer = client.messages.create(**request)
    text = "".join(block.text for block in answer.content if block.type == "text")
    thought = "".join(block.thinking for block in answer.content if block.type == "thinking")
    calls = [(block.name, block.input) for block in answer.content if block.type == "tool_use"]
    return Said(text, calls, thought, answer.stop_reason)


Asker = Callable[[ModelServer, bool], Said]
ASKERS: dict[str, Asker] = {"chat": chat, "respond": respond, "message": message}
"""One question by an official client, streamed or not, for each protocol."""
