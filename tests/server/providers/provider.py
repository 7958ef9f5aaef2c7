"""What a provider is to the server: what it demands beyond its wire format, and how it answers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from .. import anthropic_messages, chat_completions, responses
from ..chat_answer import Style
from ..checks import OPENAI, Check
from ..errors import openai_error
from ..script import Reply, Usage
from ..sdk_types import misfits
from ..wire import digest


class Asked(NamedTuple):
    """A request as rules see it: every field of its wire format has the right type."""

    body: dict[str, Any]
    headers: Mapping[str, str] = {}
    tokens: int = 0
    """What the request counts for."""
    window: int = 0
    """How many tokens fit, the answer included; 0: any number."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages, whose content may be a text or parts."""
        found: list[dict[str, Any]] = self.body.get("messages") or []
        return found

    @property
    def replies(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """What a model has said, each message with its index."""
        return ((n, each) for n, each in enumerate(self.messages) if each["role"] == "assistant")

    @property
    def account(self) -> str:
        """Who asks: the key."""
        bearer = self.headers.get("authorization", "").removeprefix("Bearer ")
        return self.headers.get("x-api-key") or self.headers.get("api-key") or bearer

    @property
    def most_output(self) -> int:
        """The cap on the answer, in tokens; 0: none is set."""
        names = ("max_completion_tokens", "max_tokens", "max_output_tokens")
        return next((self.body[name] for name in names if self.body.get(name)), 0)

    @property
    def forces_tools(self) -> bool:
        """Whether the model may not answer without a call."""
        choice = self.body.get("tool_choice")
        return choice in ("required", "any") or isinstance(choice, dict)


Finds = Callable[[Asked], Iterator[str]]
"""Yields what a provider says to a request that breaks a rule."""


@dataclass(frozen=True)
class Rule:
    """One thing that a provider demands."""

    finds: Finds
    source: str
    """Where it is documented or was reported: an address, or a file of a public repository."""
    models: str = ""
    """A regular expression on the model's name; empty: all."""
    api: str = chat_completions.NAME
    """The wire format; empty: all."""
    status: int = 400
    kind: str = ""
    """The error's type or code, as of `HttpError`."""
    borne: bool = False
    """The provider answers all the same, only worse; here it is noted all the same."""


def rule(source: str, **options: Any) -> Callable[[Finds], Rule]:
    """Make a rule of what yields the words of a refusal; `options` are the rule's other fields."""
    return lambda finds: Rule(finds, source, **options)


class Refusal(NamedTuple):
    """What a request is refused with."""

    text: str
    status: int = 400
    kind: str = ""
    borne: bool = False


Members = Mapping[str, Check]
NO_MODEL = "(?!)"
"""A regular expression that fits no model."""
ErrorForm = Callable[[int, str, str], object]
"""Makes the body of an error of its status, kind and message."""


@dataclass(frozen=True)
class Provider:
    """How a server differs from its wire format's own provider."""

    rules: Sequence[Rule] = ()
    path: str = "/v1"
    """The path of its base URL for OpenAI's wire formats."""
    messages_path: str = ""
    """The same for Anthropic's, whose clients add `/v1`."""
    takes: Members = field(default_factory=dict)
    """Members of a Chat Completions body that OpenAI doesn't know."""
    takes_in_replies: Members = field(default_factory=dict)
    """The same of the model's own messages."""
    takes_in_calls: Members = field(default_factory=dict)
    """The same of their calls."""
    takes_in_parts: Collection[str] = ()
    """The same of content parts."""
    takes_parts: Collection[str] = ()
    """Types of content parts that OpenAI doesn't know."""
    ignores_unknown: bool = False
    """Whether unknown members are ignored, not refused."""
    unknown: str = ""
    """How it refuses one; empty: as OpenAI does. `{name}`, `{where}` (with dots), `{message}`."""
    unknown_status: int = 400
    style: Style = field(default_factory=Style)
    """How it answers on Chat Completions."""
    bound: str = NO_MODEL
    """Models (a regular expression) whose thinking is bound: to the conversation before it with
    Anthropic, to the account with OpenAI."""
    hidden: str = NO_MODEL
    """Models whose thinking is not shown unless asked for."""
    phased: str = NO_MODEL
    """Models whose messages say which phase they belong to."""
    error: ErrorForm = openai_error
    """The form of its errors on OpenAI's wire formats."""
    overflow: Rule | None = None
    """How it refuses what does not fit in its window; None: it cuts the prompt and says nothing."""
    keyless: bool = False
    """Whether it needs no key."""

    def refusals(self, name: str, asked: Asked) -> list[Refusal]:
        """Return all that this provider would refuse a request on the wire format `name` for: what
        its format does not allow, or else what its own rules do not."""
        body = self._plain(asked.body) if name == chat_completions.NAME else asked.body
        found = [*self._of_own_members(asked.body), *_VALIDATORS[name](body, asked.headers)]
        if found:
            return [self._worded(text) for text in found]
        found = misfits(name, body)
        if found:
            return [Refusal(text) for text in found]
        overflow = self.overflow and replace(self.overflow, api="")
        rules = [*self.rules, *([overflow] if overflow and asked.window else [])]
        return [
            Refusal(text, rule.status, rule.kind, rule.borne)
            for rule in rules
            if rule.api in ("", name) and re.search(rule.models, str(asked.body["model"]))
            for text in rule.finds(asked)
        ]

    def render(self, name: str, reply: Reply, asked: Asked, usage: Usage) -> list[bytes]:
        """Return the answer on the wire format `name`: the events of a stream, or one document."""
        body = asked.body
        model = str(body.get("model"))
        is_bound = bool(reply.reasoning and re.search(self.bound, model))
        if name == chat_completions.NAME:
            return chat_completions.render(reply, body, usage, self.style)
        if name == responses.NAME:
            account = digest(asked.account) if is_bound else ""
            phases = bool(re.search(self.phased, model))
            return responses.render(reply, body, usage, account=account, phases=phases)
        prefix = anthropic_messages.prefixes(body)[-1] if is_bound else ""
        hidden = bool(re.search(self.hidden, model))
        return anthropic_messages.render(reply, body, usage, prefix=prefix, hidden=hidden)

    def _plain(self, body: dict[str, Any]) -> dict[str, Any]:
        """The body without what only this provider takes."""
        plain = {k: v for k, v in body.items() if self._is_plain(k, self.takes, "body")}
        if isinstance(plain.get("messages"), list):
            plain["messages"] = [self._plain_message(message) for message in plain["messages"]]
        return plain

    def _plain_message(self, message: Any) -> Any:
        if not isinstance(message, dict):
            return message
        if message.get("role") == "assistant":
            members = self.takes_in_replies
            message = {k: v for k, v in message.items() if self._is_plain(k, members, "reply")}
        content, calls = message.get("content"), message.get("tool_calls")
        if isinstance(content, list) and content:
            message = message | {"content": self._plain_parts(content) or None}
        if isinstance(calls, list):
            message = message | {"tool_calls": [self._plain_call(call) for call in calls]}
        return message

    def _plain_parts(self, parts: list[Any]) -> list[Any]:
        kept = [p for p in parts if not (isinstance(p, dict) and p.get("type") in self.takes_parts)]
        return [
            {k: v for k, v in part.items() if k not in self.takes_in_parts}
            if isinstance(part, dict)
            else part
            for part in kept
        ]

    def _plain_call(self, call: Any) -> Any:
        if not isinstance(call, dict):
            return call
        return {k: v for k, v in call.items() if self._is_plain(k, self.takes_in_calls, "call")}

    def _is_plain(self, key: str, members: Members, place: str) -> bool:
        if key in members:
            return False
        return not self.ignores_unknown or key in chat_completions.FIELDS[place]

    def _of_own_members(self, body: dict[str, Any]) -> Iterator[str]:
        """Its own members of the wrong type, as far as the body can be looked into."""
        yield from _wrong(body, self.takes, "")
        messages = body.get("messages")
        for where, message in OPENAI.items(
            messages if isinstance(messages, list) else [], "messages"
        ):
            if isinstance(message, dict) and message.get("role") == "assistant":
                yield from _wrong(message, self.takes_in_replies, where)

    def _worded(self, text: str) -> Refusal:
        """A refusal of an unknown member in the provider's words, any other as it is."""
        unknown = re.fullmatch(r"Unknown parameter: '(.*)'\.", text)
        if not (self.unknown and unknown):
            return Refusal(text)
        where = re.sub(r"\[(\d+)\]", r".\1", unknown.group(1))
        message, _, name = where.rpartition(".")
        words = self.unknown.format(name=name, where=where, message=message)
        return Refusal(words, self.unknown_status)


_VALIDATORS = {api.NAME: api.validate for api in (anthropic_messages, chat_completions, responses)}


def _wrong(value: dict[str, Any], members: Members, where: str) -> Iterator[str]:
    for name, check in members.items():
        if name in value and (expected := check(value[name])):
            yield OPENAI.wrong(OPENAI.at(where, name), expected)


# --- rules of common forms ----------------------------------------------------------------------


def refuses(*members: str, says: str, source: str, **options: Any) -> Rule:
    """Members that may not be sent; `{name}` is the one that was."""

    @rule(source, **options)
    def finds(asked: Asked) -> Iterator[str]:
        for name in members:
            if asked.body.get(name) is not None:
                yield says.format(name=name)

    return finds


def levels(
    allowed: str, *, says: str, source: str, member: str = "reasoning_effort", **options: Any
) -> Rule:
    """The values that a member (`outer.inner` within another) may have; `{value}` is the one that
    was sent, `{allowed}` names those it may be."""
    outer, _, inner = member.partition(".")

    @rule(source, **options)
    def finds(asked: Asked) -> Iterator[str]:
        value = asked.body.get(outer)
        if inner:
            value = (value or {}).get(inner)
        if value is not None and value not in allowed.split():
            names = ", ".join(f"'{name}'" for name in allowed.split())
            yield says.format(value=value, allowed=names)

    return finds


def comes_back(
    name: str,
    *,
    says: str,
    when: Callable[[Asked], bool],
    source: str,
    filled: bool = False,
    own: str = "",
    **options: Any,
) -> Rule:
    """A member that each reply with calls must still have; `filled`: with something in it; `own`:
    only replies with calls whose ids begin so."""

    @rule(source, **options)
    def finds(asked: Asked) -> Iterator[str]:
        for index, reply in asked.replies if when(asked) else ():
            calls = reply.get("tool_calls") or []
            missing = not reply.get(name) if filled else not isinstance(reply.get(name), str)
            if missing and any(call["id"].startswith(own) for call in calls):
                yield says.format(index=index)

    return finds


def no_forced_tools(
    says: str, when: Callable[[Asked], bool] = lambda asked: True, *, source: str, **options: Any
) -> Rule:
    """The model can't be made to call a tool."""

    @rule(source, **options)
    def finds(asked: Asked) -> Iterator[str]:
        if asked.forces_tools and when(asked):
            yield says

    return finds


def too_long(
    says: str,
    *,
    with_output: bool = False,
    source: str = "earendil-works/pi packages/ai/src/utils/overflow.ts",
    **options: Any,
) -> Rule:
    """More than fits in the window; `with_output`: together with the cap on the answer."""

    @rule(source, **options)
    def finds(asked: Asked) -> Iterator[str]:
        output = asked.most_output if with_output else 0
        if asked.tokens + output > asked.window:
            yield says.format(tokens=asked.tokens, window=asked.window, output=output)

    return finds


def nested_error(status: int, kind: str, message: str) -> dict[str, Any]:
    """`{"error": {"code": status, "message": …, "type": …}}`, as several servers have it."""
    return {"error": {"code": status, "message": message, "type": kind or "invalid_request_error"}}


def flat_error(status: int, kind: str, message: str) -> dict[str, Any]:
    """OpenAI's error without the object around it."""
    found: dict[str, Any] = openai_error(status, kind, message)["error"]
    return found


def as_json(value: object) -> str:
    """JSON as a text, for errors that carry another's error so."""
    return json.dumps(value, ensure_ascii=False)
