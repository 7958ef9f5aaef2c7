"""The `openai` client under both wire formats that OpenAI defined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from agentcli.errors import LLMError
from agentcli.llm.classify import classify, http_failure
from agentcli.llm.lazy_sdk import lazily
from agentcli.llm.provider import (
    Endpoint,
    ReplySize,
    check_event_stream,
    check_object,
    sent_events,
    text_lines,
    unknown_failure,
)

_JSON = {"headers": {"content-type": "application/json"}}


class OpenAIClient:
    """Sends finished bodies and gives back plain JSON: the SDK does addresses, headers, transport
    and errors; its walk over the whole body at each request is left out."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._size = ReplySize()
        self._client: Any = None

    def connect(self) -> None:
        with lazily("openai"):
            import openai

            from agentcli.llm.bounded_http import http_client

            self._client = openai.OpenAI(
                api_key=self._endpoint.api_key or "none",
                base_url=self._endpoint.base_url,
                default_headers=dict(self._endpoint.headers),
                http_client=http_client(self._endpoint, self._size),
                max_retries=0,
            )

    def post(self, path: str, body: bytes) -> Mapping[str, Any]:
        data = self._client.post(path, cast_to=object, content=body, options=_JSON)
        return check_object(data)

    @contextmanager
    def stream(self, path: str, body: bytes) -> Iterator[Iterator[Mapping[str, Any]]]:
        """The JSON objects of the events of a streamed answer."""
        import openai

        stream = self._client.post(
            path,
            cast_to=object,
            content=body,
            options=_JSON,
            stream=True,
            stream_cls=openai.Stream[object],
        )
        with stream:
            check_event_stream(stream.response.headers.get("content-type", ""))
            yield sent_events(text_lines(stream.response.iter_bytes()))

    def translate(self, error: Exception) -> LLMError:
        import openai

        origin = self._endpoint.base_url
        if isinstance(error, openai.APIStatusError):
            return classify(error.status_code, error.body, error.response.headers, origin)
        wrapped = isinstance(error, openai.APIConnectionError)
        cause = (error.__cause__ if wrapped else None) or error
        return http_failure(origin, cause) or unknown_failure(origin, cause)

    def models(self) -> list[str]:
        data = check_object(self._client.get("/models", cast_to=object))
        return [str(model["id"]) for model in data.get("data") or [] if "id" in model]

    def abort(self) -> None:
        if self._client is not None:
            self._client.close()
