"""A model that plays recorded replies: for the demo, tests and bug reports.

`scripted/FILE` names a recording made by `agent run --record`, or a file with one reply per line as
a provider sent it: a Chat Completions `chat.completion`, a Responses `response` or an Anthropic
`message` object. The replies are played one after the other; a resumed session continues with reply
number n if its first request has n replies. `scripted/demo` is the recording of `agent demo`. With
`extra_body = { words_per_second = 6 }` replies come at reading speed.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentcli.errors import ConfigError, LLMError, LLMErrorKind
from agentcli.events import event_from_dict
from agentcli.events.conversation import RECORDING, is_newer, recorded_replies
from agentcli.events.progress import TextDelta, ToolCallStarted
from agentcli.llm.protocols import anthropic_messages, chat_completions, responses
from agentcli.llm.wire_protocol import (
    Endpoint,
    StreamItem,
    WireProtocol,
    parsing_reply,
    unknown_failure,
)
from agentcli.messages import Reply, Request, Role
from agentcli.system.homes import expanded

_PARSERS = {
    "chat.completion": chat_completions.parse_reply,
    "response": responses.parse_reply,
    "message": anthropic_messages.parse_reply,
}

_DEMO = Path(__file__).parents[2] / "demo" / "session.jsonl"
_THINKING_S = 1.0


class Scripted(WireProtocol):
    """Plays the replies of a file. Raises ConfigError when it can't be read or holds anything
    else."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._path = _DEMO if endpoint.model == "demo" else expanded(endpoint.model)
        self._words_per_second = float(endpoint.extra_body.get("words_per_second", 0))
        self._next = 0
        """The number of the reply after the newest one given. The replies in a request don't tell:
        a condensation takes some away."""
        if self._path.exists() and not self._path.is_file():
            raise ConfigError(f"script {self._path} is not a file")
        try:
            lines = self._path.read_text(encoding="utf-8").split("\n")
            self._replies = _replies([json.loads(line) for line in lines if line.strip()])
        except OSError as error:
            raise ConfigError(f"script {self._path} can't be read: {error.strerror}") from error
        except (ValueError, TypeError) as error:
            raise ConfigError(f"script {self._path} is not JSON lines: {error}") from error
        except ConfigError as error:
            raise ConfigError(f"script {self._path}{error.message}", hint=error.hint) from error

    def answer(self, request: Request) -> Iterator[StreamItem]:
        number = sum(message.role is Role.ASSISTANT for message in request.messages)
        if request.tools:
            # Without tools it is a request beside the conversation, as for a summary.
            number = max(number, self._next)
        if number >= len(self._replies):
            raise LLMError(
                LLMErrorKind.BAD_REQUEST,
                f"the recording ends here: {self._path} has no reply number {number + 1}",
                hint="to set up a real model: agent setup",
            )
        recorded = self._replies[number]
        if isinstance(recorded, Reply):
            reply = recorded
        else:
            with parsing_reply():
                reply = _PARSERS[_kind(recorded)](recorded, "scripted")
        for piece in self._paced(reply.text):
            yield TextDelta(piece)
        for call in reply.tool_calls:
            yield ToolCallStarted(call.name)
        if request.tools:
            self._next = number + 1
        yield reply

    def _paced(self, text: str) -> Iterator[str]:
        """Yield lines at once, or words one after the other at the set pace."""
        if not self._words_per_second:
            yield from text.splitlines(keepends=True)
            return
        time.sleep(_THINKING_S)
        for word in re.findall(r"\s*\S+\s*$|\s*\S+", text):
            yield word
            time.sleep(1 / self._words_per_second)

    def translate(self, error: Exception) -> LLMError:
        return unknown_failure(str(self._path), error)

    def models(self) -> list[str]:
        return [str(self._path)]


def _replies(lines: Sequence[Any]) -> Sequence[Reply | Mapping[str, Any]]:
    """Return the replies in a script's lines; a recording's are taken from its events. Raises
    ConfigError, and ValueError for a damaged event."""
    if lines and isinstance(lines[0], Mapping) and RECORDING in lines[0]:
        if is_newer(lines[0]):
            message = f" was recorded by a newer version of agent (format {lines[0][RECORDING]})"
            raise ConfigError(message, hint="upgrade agent to use it")
        return recorded_replies(
            [event_from_dict(line["event"]) for line in lines if "event" in line]
        )
    for number, reply in enumerate(lines, 1):
        if _kind(reply) not in _PARSERS:
            raise ConfigError(f", reply {number}: no provider's reply form")
    return lines


def _kind(reply: Any) -> str:
    if not isinstance(reply, Mapping):
        return ""
    return str(reply.get("object") or reply.get("type") or "")


PROTOCOL = Scripted
