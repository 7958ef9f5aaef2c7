"""The model server: judges requests, follows the script and keeps the records."""

from __future__ import annotations

import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import count, takewhile
from types import TracebackType
from typing import Any, Protocol

from . import anthropic_messages, chat_completions, responses
from .checks import parse_body
from .conversation import BYTES_IN_A_TOKEN, Meter, Part, prefix_breaks
from .errors import anthropic_error, anthropic_models, openai_error, openai_models
from .loopback import Answer, Incoming, Loopback
from .providers import COMPATIBLE, PROVIDERS, Asked
from .script import (
    Altered,
    Dropped,
    Entry,
    Hang,
    HttpError,
    LengthStop,
    Paused,
    Play,
    Raw,
    Recorded,
    Redirect,
    Reply,
    Step,
    StreamError,
    Trickle,
    Truncated,
    Usage,
)
from .wire import dumps, event, new_id


class _Api(Protocol):
    """What each protocol's module provides."""

    NAME: str
    PATH: str

    def parts(self, body: dict[str, Any]) -> list[Part]: ...


_APIS: tuple[_Api, ...] = (chat_completions, responses, anthropic_messages)
_BY_PATH = {api.PATH: api for api in _APIS}
_PARTS = {api.NAME: api.parts for api in _APIS}
_DEFAULT_MODELS = ("test-model",)


class ModelServer:
    """Plays the model on 127.0.0.1, on the providers' own protocols and by their rules.

    A context manager; `url` has no path, so an OpenAI client takes `url + "/v1"` as its base and
    an Anthropic client `url`.
    """

    def __init__(
        self,
        script: Sequence[Step] = (),
        *,
        play: Play | None = None,
        keys: Collection[str] | None = None,
        models: Sequence[str] | None = None,
        strict: bool = True,
        loop: bool = False,
        record: bool = True,
        provider: str = "",
        window: int = 0,
        pages: Mapping[str, Any] | None = None,
        on_violation: Callable[[str], None] | None = None,
    ) -> None:
        """`play` answers every request when given, else the script's steps do in turn, over and
        over with `loop`. `keys`: those accepted; None for any, an empty collection for a server
        that needs none. `models`: those known; None for any. `strict=False` answers without
        judging, `record=False` without keeping requests. `provider`: whose rules and manners it
        has besides its wire formats' (a name of `PROVIDERS`). `window`: how many tokens it holds;
        0: any number. `pages`: what else is there, by path: JSON, or an Answer."""
        self.requests: list[Recorded] = []
        self.violations: list[str] = []
        self._script = deque(script)
        self._play = play
        self._keys = {keys} if isinstance(keys, str) else keys
        self._models = models
        self._strict, self._loop, self._record = strict, loop, record
        self._provider = PROVIDERS[provider] if provider else COMPATIBLE
        self._window = window
        self._pages = pages or {}
        self._on_violation = on_violation
        self._numbers = count(1)
        self._meter = Meter()
        self._lock = threading.Lock()
        self._http = Loopback(self._answer, self._crashed)

    @property
    def url(self) -> str:
        """Where it listens, without a path."""
        return f"http://127.0.0.1:{self._http.server_port}"

    @property
    def base_url(self) -> str:
        """The same with the path that the provider's base URL has, for OpenAI's wire formats."""
        return self.url + self._provider.path

    @property
    def messages_url(self) -> str:
        """The same for Anthropic's."""
        return self.url + self._provider.messages_path

    def start(self) -> None:
        """Serve in the background."""
        self._http.start()

    def add(self, steps: Sequence[Step]) -> None:
        """More for the end of the script."""
        with self._lock:
            self._script.extend(steps)

    def close(self) -> None:
        """Stop serving; whatever hangs is let go."""
        self._http.stop()

    def __enter__(self) -> ModelServer:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def results(self) -> list[str]:
        """The results of calls in the last request, by Chat Completions."""
        messages = self.requests[-1].body["messages"]
        return [str(message["content"]) for message in messages if message["role"] == "tool"]

    def prefix_breaks(self, where: Callable[[Recorded], bool] | None = None) -> list[str]:
        """Each request that does not begin with the request before it of the same api: the same
        tools, system and content blocks in the same order, cache marks aside; the last message may
        have grown. `where` picks the requests to look at, such as those of one conversation."""
        with self._lock:
            chosen = [request for request in self.requests if where is None or where(request)]
        return prefix_breaks(chosen, _PARTS)

    def _answer(self, incoming: Incoming) -> Answer:
        path = incoming.path.split("?")[0]
        if incoming.method == "GET" and path in self._pages:
            page = self._pages[path]
            return page if isinstance(page, Answer) else Answer([dumps(page)])
        path = self._within_base(path)
        if incoming.method == "GET" and path.split("/")[:2] == ["", "models"]:
            return self._list_models(path.removeprefix("/models").strip("/"), incoming.headers)
        api = _BY_PATH.get(path)
        if incoming.method != "POST" or api is None:
            error = anthropic_error if "anthropic-version" in incoming.headers else openai_error
            message = f"Unknown request URL: {incoming.method} {incoming.path}."
            return Answer([dumps(error(404, "", message))], status=404)
        name = f"{api.NAME}: request {next(self._numbers)}"
        body, refusal = self._judge(api, incoming, name)
        headers, raw = incoming.headers, incoming.raw
        refused = refusal is not None
        request = Recorded(api.NAME, incoming.path, headers, body, raw, refused)
        step = self._take(request)
        if refusal is not None:
            return self._error(api, refusal)
        if step is None:
            self._violation(name, "script exhausted")
            return self._error(api, HttpError(500, message="The script is exhausted."))
        try:
            entry = step(request) if callable(step) else step
            return self._perform(api, entry, request)
        except Exception:
            self._violation(name, traceback.format_exc())
            return self._error(api, HttpError(500, message="The script has failed."))

    def _within_base(self, path: str) -> str:
        """A path without that of the base URL, which may be left out."""
        provider = self._provider
        for base in (f"{provider.messages_path}/v1", provider.path or "/v1"):
            if path.startswith(f"{base}/"):
                return path.removeprefix(base)
        return path

    def _judge(
        self, api: _Api, incoming: Incoming, name: str
    ) -> tuple[dict[str, Any], HttpError | None]:
        """The body, and how the provider would refuse it: first the key, then the bytes, the
        fields, the model's name."""
        if not self._authorised(api is anthropic_messages, incoming.headers):
            return {}, HttpError(401, message="Incorrect API key provided.")
        try:
            body = parse_body(incoming.raw, incoming.headers.get("content-type", ""))
        except ValueError as error:
            self._violation(name, str(error))
            return {}, HttpError(400, message=str(error))
        asked = self._asked(Recorded(api.NAME, incoming.path, incoming.headers, body, incoming.raw))
        faults = self._provider.refusals(api.NAME, asked) if self._strict else []
        for fault in faults:
            self._violation(name, fault.text)
        refusal = next((fault for fault in faults if not fault.borne), None)
        if refusal is not None:
            return body, HttpError(refusal.status, refusal.kind, refusal.text)
        model = str(body.get("model"))
        if self._models is not None and model not in self._models:
            return body, self._unknown_model(api is anthropic_messages, model)
        return body, None

    def _asked(self, request: Recorded) -> Asked:
        tokens = len(request.raw) // BYTES_IN_A_TOKEN
        return Asked(request.body, request.headers, tokens, self._window)

    def _authorised(self, anthropic: bool, headers: Mapping[str, str]) -> bool:
        """A key comes as a bearer token; Anthropic takes `x-api-key` too, and Azure `api-key`."""
        scheme, _, key = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            key = ""
        key = headers.get("x-api-key" if anthropic else "api-key", key)
        if self._keys is None:
            return bool(key.strip()) or self._provider.keyless
        return not self._keys or key.strip() in self._keys

    def _unknown_model(self, anthropic: bool, model: str) -> HttpError:
        if anthropic:
            return HttpError(404, message=f"model: {model}")
        message = f"The model `{model}` does not exist or you do not have access to it."
        return HttpError(404, "model_not_found", message)

    def _list_models(self, name: str, headers: Mapping[str, str]) -> Answer:
        """The models in the form of the provider that the headers speak to, or one of them."""
        anthropic = "x-api-key" in headers or "anthropic-version" in headers
        api: _Api = anthropic_messages if anthropic else chat_completions
        names = _DEFAULT_MODELS if self._models is None else self._models
        if not self._authorised(anthropic, headers):
            return self._error(api, HttpError(401, message="Incorrect API key provided."))
        if name and self._models is not None and name not in names:
            return self._error(api, self._unknown_model(anthropic, name))
        listing = (anthropic_models if anthropic else openai_models)([name] if name else names)
        return Answer([dumps(listing["data"][0] if name else listing)])

    def _take(self, request: Recorded) -> Step | None:
        """Records the request and takes the next step; none after the last, and none for a refused
        request, which uses up no step."""
        with self._lock:
            if self._record:
                self.requests.append(request)
            if request.refused:
                return None
            if self._play is not None:
                return self._play
            if not self._script:
                return None
            step = self._script.popleft()
            if self._loop:
                self._script.append(step)
            return step

    def _perform(self, api: _Api, entry: Entry, request: Recorded) -> Answer:
        if isinstance(entry, HttpError):
            return self._error(api, entry)
        if isinstance(entry, Raw):
            return Answer([entry.body], entry.status, entry.content_type, entry.headers)
        if isinstance(entry, Redirect):
            return Answer([b""], status=entry.status, headers={"location": entry.to})
        if isinstance(entry, Dropped):
            return Answer([], then=entry.how, bare=True)
        whole = self._whole(api, _reply_of(entry), request)
        return whole if isinstance(entry, Reply) else self._break(api, entry, request, whole)

    def _break(self, api: _Api, entry: _Broken, request: Recorded, whole: Answer) -> Answer:
        """The whole answer with what `entry` does to it."""
        streamed = bool(request.body.get("stream"))
        if isinstance(entry, StreamError):
            if not streamed:
                status = 529 if entry.kind == "overloaded_error" else 500
                return self._error(api, HttpError(status, entry.kind, entry.message))
            failure = self._stream_error(api, entry)
            return replace(whole, chunks=[*_unended(whole.chunks)[: entry.after], failure])
        if isinstance(entry, Truncated):
            half = whole.chunks[0][: len(whole.chunks[0]) // 2]
            kept = _unended(whole.chunks)[: entry.after] if streamed else [half]
            return replace(whole, chunks=kept, then=entry.how)
        if isinstance(entry, Hang):
            kept = list(whole.chunks[: entry.after]) if streamed and entry.headers else []
            bare = not entry.headers
            return replace(
                whole, chunks=kept, then="cut", gate=entry.event, gate_after=len(kept), bare=bare
            )
        if isinstance(entry, Trickle):
            return replace(whole, chunks=[], then="cut", gate=entry.event, drop=entry.drop)
        if isinstance(entry, Altered):
            headers = {**whole.headers, **entry.headers}
            chunks = entry.change(list(whole.chunks))
            return replace(whole, chunks=chunks, headers=headers, then=entry.then)
        if isinstance(entry, Paused):
            after = entry.after if streamed else 0
            return replace(whole, gate=entry.event, gate_after=after)
        return whole

    def _whole(self, api: _Api, reply: Reply, request: Recorded) -> Answer:
        """The answer in full, with usage counted unless the reply says it."""
        explicit = api is anthropic_messages
        with self._lock:
            total, cached, written = self._meter.count(
                api.NAME, api.parts(request.body), len(request.raw), explicit
            )
        read = min(total, self._window) if self._window else total
        counted = Usage(
            input=read,
            output=reply.size // 4 + 1,
            cached=min(cached, read),
            written=written if explicit else 0,
            reasoning=len(reply.reasoning) // 4,
        )
        asked = self._asked(request)
        chunks = self._provider.render(api.NAME, reply, asked, reply.usage or counted)
        kind = "text/event-stream; charset=utf-8"
        kind = kind if request.body.get("stream") else "application/json"
        return Answer(chunks, content_type=kind, headers=_request_id(api))

    def _error(self, api: _Api, error: HttpError) -> Answer:
        form = anthropic_error if api is anthropic_messages else self._provider.error
        body = form(error.status, error.kind, error.message)
        headers = _request_id(api) | dict(error.headers)
        raw = b"" if body is None else dumps(body)
        return Answer([raw], status=error.status, headers=headers)

    def _stream_error(self, api: _Api, error: StreamError) -> bytes:
        """An error inside a stream that has begun with status 200."""
        if api is anthropic_messages:
            return event(anthropic_error(529, error.kind, error.message), "error")
        if api is chat_completions:
            return event(_frame(self._provider.error(500, error.kind, error.message)))
        failure = {"type": "error", "code": error.kind, "message": error.message, "param": None}
        return event(failure | {"sequence_number": error.after}, "error")

    def _violation(self, name: str, what: str) -> None:
        line = f"{name}: {what}"
        with self._lock:
            self.violations.append(line)
        if self._on_violation is not None:
            self._on_violation(line)

    def _crashed(self) -> None:
        """A client may go away as it likes; anything else that ends a connection is a fault."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            self._violation("server", traceback.format_exc())


_Broken = StreamError | Truncated | LengthStop | Hang | Paused | Trickle | Altered


def _reply_of(entry: Reply | _Broken) -> Reply:
    if isinstance(entry, Reply):
        return entry
    if isinstance(entry, LengthStop):
        return entry.cut()
    if isinstance(entry, Trickle):
        return Reply()
    return entry.reply or Reply()


_END_MARKS = (
    b'"finish_reason":"',
    b"event: response.completed",
    b"event: response.incomplete",
    b"event: response.failed",
    b"event: message_delta",
)


def _unended(chunks: Sequence[bytes]) -> list[bytes]:
    """A stream's events up to the first that tells how the turn ended. (Within a model's own words
    the quotes of such a mark are escaped.)"""
    return list(takewhile(lambda chunk: not any(mark in chunk for mark in _END_MARKS), chunks))


def _frame(body: object) -> object:
    """An error's body as an event inside a stream has it: one object that says it is an error."""
    if isinstance(body, list):
        return body[0]
    marked = isinstance(body, dict) and ("error" in body or "object" in body)
    return body if marked else {"error": body}


def _request_id(api: _Api) -> dict[str, str]:
    name = "request-id" if api is anthropic_messages else "x-request-id"
    return {name: new_id("req_")}
