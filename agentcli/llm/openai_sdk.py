"""The `openai` client under both wire formats that OpenAI defined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from agentcli.errors import LLMError, LLMErrorKind
from agentcli.llm.classify import classify, connection_error
from agentcli.llm.lazy_sdk import lazily
from agentcli.llm.provider import (
    GARBLED,
    Endpoint,
    check_event_stream,
    check_object,
    http_client,
    sent_events,
)

_JSON = {"headers": {"content-type": "application/json"}}


class OpenAIClient:
    """Sends finished bodies and gives back plain JSON: the SDK does addresses, headers, transport
    and errors; its walk over the whole body at each request is left out."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._client: Any = None

    def connect(self) -> None:
        with lazily("openai"):
            import openai

            self._client = openai.OpenAI(
                api_key=self._endpoint.api_key or "none",
                base_url=self._endpoint.base_url,
                default_headers=dict(self._endpoint.headers),
                http_client=http_client(self._endpoint),
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
            yield sent_events(stream.response.iter_lines())

    def translate(self, error: Exception) -> LLMError:
        import httpx2
        import openai

        origin = self._endpoint.base_url
        if isinstance(error, openai.APITimeoutError):
            return LLMError(LLMErrorKind.TIMEOUT, f"{origin} did not answer in time")
        if isinstance(error, openai.APIStatusError):
            return classify(error.status_code, error.body, error.response.headers, origin)
        if isinstance(error, openai.APIConnectionError):
            return connection_error(origin, error)
        if isinstance(error, openai.APIError):
            return LLMError(LLMErrorKind.SERVER_ERROR, f"{origin}: {error.message}")
        if isinstance(error, httpx2.TimeoutException):
            return LLMError(LLMErrorKind.TIMEOUT, f"{origin} fell silent")
        if isinstance(error, httpx2.TransportError):
            return connection_error(origin, error)
        if isinstance(error, GARBLED):
            return LLMError(LLMErrorKind.BAD_RESPONSE, f"{origin} sent a garbled answer: {error}")
        raise error

    def models(self) -> list[str]:
        data = check_object(self._client.get("/models", cast_to=object))
        return [str(model["id"]) for model in data.get("data") or [] if "id" in model]

    def abort(self) -> None:
        if self._client is not None:
            self._client.close()
