"""What all wire formats over HTTP share. The SDK handles addresses, headers, transport and errors.

Request bodies are finished bytes and answers plain JSON, which skips both SDKs' traversals of the
whole body and their models of answers.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from agentcli.errors import ConfigError, LLMError
from agentcli.llm.answers import checked_answer, refused_reply, taken_apart
from agentcli.llm.connections import http_failure, make_lazy, through_proxy
from agentcli.llm.provider import Efforts, Traits, built_in
from agentcli.llm.tool_schemas import WireTools
from agentcli.llm.wire_protocol import (
    Endpoint,
    PerMessage,
    ReplySize,
    StreamItem,
    check_object,
    dump,
    join_object,
    parsing_reply,
    token_count,
    unknown_failure,
    wire_arguments,
    wire_name,
)
from agentcli.messages import (
    Message,
    ProviderData,
    Reply,
    Request,
    Role,
    ToolCall,
    ToolChoice,
    ToolSchema,
    Usage,
)

if TYPE_CHECKING:
    from agentcli.llm.healing import Remedy


class SDKProtocol(ABC):
    """A wire format spoken through an SDK's client."""

    sdk: ClassVar[str]
    client: ClassVar[str]
    """The name of the SDK's client class."""
    path: ClassVar[str]
    models_path: ClassVar[str] = "/models"
    conversation: ClassVar[str] = "messages"
    """The body member that holds the conversation."""
    output_limit: ClassVar[str]
    """The body member that caps a reply."""
    usual_efforts: ClassVar[Efforts]
    """How the effort is told, unless an endpoint's traits say otherwise."""
    call_ids: ClassVar[str]
    """A regular expression for the ids of calls that it takes."""
    call_prefix: ClassVar[str] = "call_"

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._size = ReplySize()
        self._parts = PerMessage(self._as_bytes)
        self._wire_tools = WireTools(self.traits.schema, self.traits.unwanted_keywords)
        self._client: Any = None

    @property
    def traits(self) -> Traits:
        return self._endpoint.traits

    @property
    def origin(self) -> str:
        """What provider data is marked with; it goes back only where that is the same."""
        return f"{type(self).__name__} {self._endpoint.family}"

    def remedy(self, error: LLMError, request: Request) -> Remedy | None:
        from agentcli.llm.healing import find_remedy

        return find_remedy(error, self.traits, self.members(request), request)

    def learn(self, changes: Mapping[str, Any]) -> None:
        self._endpoint = replace(self._endpoint, traits=self.traits.with_changes(changes))
        self._wire_tools = WireTools(self.traits.schema, self.traits.unwanted_keywords)
        self._parts.forget()

    def _body(self, request: Request) -> bytes:
        head = self.members(request)
        return join_object(head, **{self.conversation: self._conversation(request.messages)})

    @abstractmethod
    def _conversation(self, messages: Sequence[Message]) -> bytes:
        """Return the conversation as a JSON array."""

    def members(self, request: Request) -> dict[str, Any]:
        """Return the members of the request's body other than the conversation, with the user's
        additions and without what the endpoint or the user does not want."""
        unwanted = {*self.traits.unwanted, *self._endpoint.drop_params}
        request = replace(request, tools=self._wire_tools.declared(request.tools))
        wanted = {**self._members(request), **self._endpoint.extra_body}
        return {name: value for name, value in wanted.items() if name not in unwanted}

    @abstractmethod
    def _members(self, request: Request) -> dict[str, Any]:
        """Return the members of a body other than the conversation."""

    def _common_members(self, request: Request) -> dict[str, Any]:
        """Return the members that all wire formats have."""
        traits, limit = self.traits, request.max_output_tokens
        limit = min(limit, traits.most_output_tokens or limit)
        members: dict[str, Any] = {
            "model": self._endpoint.model,
            traits.output_limit or self.output_limit: limit,
        }
        if self._endpoint.stream:
            members["stream"] = True
        if request.temperature is not None:
            members["temperature"] = request.temperature
        return {**members, **traits.always, **traits.effort(request.effort, self.usual_efforts)}

    def _as_bytes(self, message: Message) -> bytes:
        """Return the JSON values of a message, joined by commas, with the arguments of its calls as
        the tools are declared here."""
        calls = [
            replace(c, arguments=self._wire_tools.wire(c.name, c.arguments))
            for c in message.tool_calls
        ]
        declared = replace(message, tool_calls=tuple(calls)) if calls else message
        return b",".join(map(dump, self._wire(self._visible(declared))))

    def _visible(self, message: Message) -> Message:
        """Return `message` with a note in place of images that the endpoint does not take, so that
        the model knows there is something it can't see."""
        count = len(message.image_urls)
        hidden = self.traits.images == "none" or not self._endpoint.images
        in_result = self.traits.images == "messages" and message.role is Role.TOOL
        if not (count and (hidden or in_result)):
            return message
        note = f"[{f'{count} images' if count > 1 else 'an image'} here, which you can't be shown]"
        return replace(message, content=f"{message.content}\n{note}".strip(), image_urls=())

    def _own_data(self, message: Message) -> ProviderData | None:
        data = message.provider_data
        return data if data is not None and data.provider == self.origin else None

    def _wire_id(self, call_id: str) -> str:
        """Return the id as the endpoint takes it; the same for the same call, whoever made it."""
        form = r"[a-zA-Z0-9]{9}" if self.traits.short_ids else self.call_ids
        if self.traits.plain_ids:
            form = r"[a-zA-Z0-9_-]{1,40}"
        if re.fullmatch(form, call_id):
            return call_id
        digest = sha256(call_id.encode(errors="replace")).hexdigest()
        return digest[:9] if self.traits.short_ids else f"{self.call_prefix}{digest[:24]}"

    def _chooses(self, request: Request) -> bool:
        """Whether the request's tool choice is to be told."""
        if request.tool_choice is ToolChoice.REQUIRED:
            return self.traits.forced_tools
        return request.tool_choice is not ToolChoice.AUTO

    @abstractmethod
    def _wire(self, message: Message) -> list[Any]:
        """Return the JSON values that represent a message."""

    @abstractmethod
    def _read(self, events: Iterator[Mapping[str, Any]]) -> Iterator[StreamItem]:
        """Read a reply from the events of a stream."""

    @abstractmethod
    def _parse(self, data: Mapping[str, Any]) -> Reply:
        """Parse a reply that arrived as a whole."""

    def connect(self) -> None:
        from agentcli.llm.bounded_http import http_client

        make_lazy(self.sdk)
        address, query = self._address()
        self._client = getattr(self._sdk, self.client)(
            **self._credentials(),
            base_url=address,
            default_query=query,
            default_headers=dict(self._endpoint.headers),
            http_client=http_client(self._endpoint, self._size),
            max_retries=0,
        )

    def _credentials(self) -> dict[str, Any]:
        """Return the arguments of the client with which it signs in."""
        return {"api_key": self._endpoint.api_key or "none"}

    def _sent(self, body: bytes) -> dict[str, Any]:
        """Return the arguments of a request that have its body."""
        return {"content": body, "options": {"headers": {"content-type": "application/json"}}}

    def _chunks(self, stream: Any) -> Iterable[bytes]:
        """Yield an answer's bytes as they arrive."""
        yield from stream.response.iter_bytes()

    def _address(self) -> tuple[str, dict[str, str]]:
        """Return the address that paths are added to, and what its query adds to each request. An
        address that holds the path already, or for Anthropic's API ends in `/v1`, means the same
        as one without."""
        address = urlsplit(self._endpoint.base_url)
        version = "/v1" if self.path.startswith("/v1/") else ""
        path = address.path.rstrip("/").removesuffix(self.path).removesuffix(version)
        return urlunsplit(address._replace(path=path, query="")), dict(parse_qsl(address.query))

    def answer(self, request: Request) -> Iterator[StreamItem]:
        try:
            for item in self._answered(request):
                yield self.read_back(item) if isinstance(item, Reply) else item
        except (LLMError, self._sdk.APIStatusError) as error:
            failure = error if isinstance(error, LLMError) else self.translate(error)
            if not failure.generation:
                raise
            yield self.read_back(refused_reply(failure.generation, self._endpoint.model))

    def _answered(self, request: Request) -> Iterator[StreamItem]:
        body = self._body(request)
        self._size.expect(request, stream=self._endpoint.stream)
        post = partial(self._client.post, self.path, cast_to=object, **self._sent(body))
        with parsing_reply(), post(stream=True, stream_cls=self._sdk.Stream[object]) as stream:
            kind = stream.response.headers.get("content-type", "")
            streamed, objects = taken_apart(self._chunks(stream), kind)
            if streamed:
                yield from checked_answer(self._read(objects))
            else:
                yield self._parse(next(objects))

    def read_back(self, reply: Reply) -> Reply:
        calls = tuple(map(self._wire_tools.own, reply.tool_calls))
        return replace(reply, tool_calls=calls) if calls else reply

    def body_bytes(self, request: Request) -> int:
        return len(self._body(request))

    def translate(self, error: Exception) -> LLMError:
        origin = self._endpoint.base_url.partition("?")[0]
        if isinstance(error, self._sdk.APIStatusError):
            from agentcli.llm.failures import classify

            # The SDK's own `body` is only a part of what was sent.
            headers = error.response.headers
            if "json" not in headers.get("content-type", ""):
                origin += through_proxy(origin)
            return classify(error.status_code, error.response.text, headers, origin)
        wrapped = isinstance(error, self._sdk.APIConnectionError)
        cause = (error.__cause__ if wrapped else None) or error
        start = built_in(self._endpoint.provider).start
        return http_failure(origin, cause, start) or unknown_failure(origin, cause)

    def models(self) -> list[str]:
        try:
            with parsing_reply():
                data = check_object(self._client.get(self.models_path, cast_to=object))
                return [str(model["id"]) for model in data.get("data") or [] if "id" in model]
        except self._sdk.APIError as error:
            raise self.translate(error) from error

    def abort(self) -> None:
        if self._client is not None:
            self._client.close()

    @property
    def _sdk(self) -> Any:
        return importlib.import_module(self.sdk)


def require_extra(extra: str, module: str, what: str) -> None:
    """Raise ConfigError unless `module`, which the extra of this package brings, is installed."""
    try:
        found = importlib.util.find_spec(module)
    except ImportError:
        found = None
    if found is None:
        raise ConfigError(
            f"{what} needs a package that is not installed",
            hint=f"pip install 'agentcli[{extra}]', where agent is installed",
        )


class OpenAIProtocol(SDKProtocol):
    sdk, client = "openai", "OpenAI"

    @abstractmethod
    def _user(self, blocks: bytes, *, after_tool: bool) -> bytes:
        """Return a message of the user with these content blocks, with what must stand before it
        if it follows the result of a tool."""

    @abstractmethod
    def _tool(self, tool: ToolSchema) -> dict[str, Any]:
        """Return how a tool is declared."""

    def _tools(self, request: Request) -> dict[str, Any]:
        """Return the members of the body that are about tools."""
        if not request.tools:
            return {}
        members: dict[str, Any] = {"tools": [self._tool(tool) for tool in request.tools]}
        if self._chooses(request):
            members["tool_choice"] = request.tool_choice.value
        return members

    def _following(self, message: Message) -> list[bytes]:
        """Return the content blocks of a user message that has to follow `message`."""
        return []

    def _user_roles(self) -> Sequence[Role]:
        """Return whose messages are sent as the user's, which the system text may have to be."""
        as_user = self.traits.system_role == "user"
        return (Role.USER, Role.SYSTEM) if as_user else (Role.USER,)

    def _conversation(self, messages: Sequence[Message]) -> bytes:
        """Return a JSON array of `messages`; consecutive user messages become one."""
        out: list[bytes] = []
        blocks: list[bytes] = []
        after_tool = False
        user = self._user_roles()
        for message, part in zip(messages, self._parts.of(messages), strict=True):
            if message.role in user:
                blocks.append(part)
            elif part:
                if blocks and message.role is not Role.TOOL:
                    out.append(self._user(b",".join(blocks), after_tool=after_tool))
                    blocks = []
                out.append(part)
                after_tool = message.role is Role.TOOL
                if message.image_urls:
                    blocks += self._following(self._visible(message))
        if blocks:
            out.append(self._user(b",".join(blocks), after_tool=after_tool))
        return b"[" + b",".join(out) + b"]"


def called_function(call: ToolCall) -> dict[str, str]:
    arguments = dump(wire_arguments(call.arguments)).decode()
    return {"name": wire_name(call.name), "arguments": arguments}


def openai_usage(usage: Any, prompt: str, completion: str) -> Usage:
    """Read a reply's usage; `prompt` and `completion` are the first words of its fields' names."""
    return Usage(
        prompt_tokens=token_count(usage, f"{prompt}_tokens"),
        completion_tokens=token_count(usage, f"{completion}_tokens"),
        cache_read_tokens=token_count(usage, f"{prompt}_tokens_details", "cached_tokens"),
        reasoning_tokens=token_count(usage, f"{completion}_tokens_details", "reasoning_tokens"),
    )
