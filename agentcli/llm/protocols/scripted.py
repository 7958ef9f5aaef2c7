"""A model that plays recorded replies: for the demo, tests and bug reports.

`scripted/FILE` names a file with one reply a line, each as a provider sent it: a Chat Completions
`chat.completion`, a Responses `response` or an Anthropic `message` object. Reply number n answers
the request that has n replies before it, so a resumed session goes on at its place. `scripted/demo`
is the recording of `agent demo`. With `extra_body = { words_per_second = 6 }` a reply comes as
slowly as it would be read.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agentcli.errors import ConfigError, LLMError, LLMErrorKind
from agentcli.events.progress import TextDelta, ToolCallStarted
from agentcli.llm.protocols import anthropic_messages, chat_completions, responses
from agentcli.llm.wire_protocol import Endpoint, StreamItem, parsing_reply, unknown_failure
from agentcli.messages import Reply, Request, Role
from agentcli.system.homes import expanded

_PARSERS = {
    "chat.completion": chat_completions.parse_reply,
    "response": responses.parse_reply,
    "message": anthropic_messages.parse_reply,
}


_DEMO = Path(__file__).parents[2] / "demo" / "session.jsonl"
_THINKING_S = 1.0


class Scripted:
    """Raises ConfigError when the file can't be read or holds anything but replies."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._path = _DEMO if endpoint.model == "demo" else expanded(endpoint.model)
        self._words_per_second = float(endpoint.extra_body.get("words_per_second", 0))
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
            self._replies = [json.loads(line) for line in lines if line.strip()]
        except OSError as error:
            raise ConfigError(f"script {self._path} can't be read: {error.strerror}") from error
        except ValueError as error:
            raise ConfigError(f"script {self._path} is not JSON lines: {error}") from error
        for number, reply in enumerate(self._replies, 1):
            if _kind(reply) not in _PARSERS:
                raise ConfigError(f"script {self._path}, reply {number}: no provider's reply form")

    def connect(self) -> None:
        """Nothing to connect to."""

    def answer(self, request: Request) -> Iterator[StreamItem]:
        number = sum(message.role is Role.ASSISTANT for message in request.messages)
        if number >= len(self._replies):
            raise LLMError(
                LLMErrorKind.BAD_REQUEST,
                f"the recording ends here: {self._path} has {len(self._replies)} replies, this "
                f"would be number {number + 1}",
                hint="for a model that goes on: agent setup",
            )
        raw = self._replies[number]
        with parsing_reply():
            reply: Reply = _PARSERS[_kind(raw)](raw, "scripted")
        for piece in self._paced(reply.text):
            yield TextDelta(piece)
        for call in reply.tool_calls:
            yield ToolCallStarted(call.name)
        yield reply

    def _paced(self, text: str) -> Iterator[str]:
        """Lines at once, or words one after the other."""
        if not self._words_per_second:
            yield from text.splitlines(keepends=True)
            return
        time.sleep(_THINKING_S)
        for word in re.findall(r"\s*\S+\s*$|\s*\S+", text):
            yield word
            time.sleep(1 / self._words_per_second)

    def body_bytes(self, request: Request) -> int:
        return 0

    def translate(self, error: Exception) -> LLMError:
        return unknown_failure(str(self._path), error)

    def models(self) -> list[str]:
        return [str(self._path)]

    def abort(self) -> None:
        """Nothing to drop."""


def _kind(reply: Any) -> str:
    if not isinstance(reply, Mapping):
        return ""
    return str(reply.get("object") or reply.get("type") or "")


PROTOCOL = Scripted
