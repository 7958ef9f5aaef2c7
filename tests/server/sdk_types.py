"""Requests as the official SDKs type them: what a type checker would have said of each."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails, SchemaValidator

_UNTYPED = {"anthropic_messages": ("thinking.block_binding", "temperature", "top_p", "top_k")}
"""Members that the API knows and the SDK's types don't: a beta's, and those of older versions."""
_OPTIONAL = {
    "ResponseInputImageParam": ("detail",),
    "ResponseOutputMessageParam": ("id", "status"),
    "ResponseOutputTextParam": ("annotations",),
    "FunctionToolParam": ("strict",),
}
"""Members by type that the SDK calls required, and the API does without."""


def misfits(api: str, body: dict[str, Any]) -> list[str]:
    """Return where a request body of the wire format `api` is none of the type that the official
    SDK takes, as `path: what is wrong`."""
    from pydantic import ValidationError

    try:
        _validator(api, bool(body.get("stream"))).validate_python(_typed(api, body), strict=True)
    except ValidationError as error:
        return [f"SDK type: {_told(error.errors(include_url=False))}"]
    return []


def _typed(api: str, body: dict[str, Any]) -> dict[str, Any]:
    for path in _UNTYPED.get(api, ()):
        outer, _, inner = path.partition(".")
        value = body.get(outer)
        if not inner:
            body = {key: item for key, item in body.items() if key != outer}
        elif isinstance(value, dict) and inner in value:
            body = body | {outer: {key: item for key, item in value.items() if key != inner}}
    return body


def _told(errors: list[ErrorDetails]) -> str:
    """The deepest fault in what the body means to be: of a union's members those are left out
    whose tag is another."""
    others = [each["loc"][:-1] for each in errors if each["type"] == "literal_error"]
    meant = [each for each in errors if not any(_within(each["loc"], loc) for loc in others)]
    fault = max(meant or errors, key=lambda each: len(each["loc"]))
    place = [str(part) for part in fault["loc"] if "[" not in str(part)]
    return f"{'.'.join(place)}: {fault['msg']}"


def _within(place: tuple[int | str, ...], outer: tuple[int | str, ...]) -> bool:
    return bool(outer) and place[: len(outer)] == outer


@cache
def _validator(api: str, streamed: bool) -> SchemaValidator:
    from pydantic import TypeAdapter
    from pydantic_core import SchemaValidator

    return SchemaValidator(_strict(TypeAdapter(_TYPES[api](streamed)).core_schema))


def _strict(schema: Any) -> Any:
    """The schema with no member but those it names, and with lists looked into at once."""
    if isinstance(schema, list | tuple):
        return type(schema)(_strict(item) for item in schema)
    if not isinstance(schema, dict):
        return schema
    schema = {key: _strict(value) for key, value in schema.items()}
    if schema.get("type") == "typed-dict":
        fields = schema["fields"]
        for name in _OPTIONAL.get(schema["cls"].__name__, ()):
            fields = fields | {name: fields[name] | {"required": False}}
        return schema | {"extra_behavior": "forbid", "fields": fields}
    if schema.get("type") == "generator":
        return {"type": "list", "items_schema": schema.get("items_schema", {"type": "any"})}
    return schema


def _chat(streamed: bool) -> Any:
    from openai.types.chat import completion_create_params as types

    found = types.CompletionCreateParamsStreaming
    return found if streamed else types.CompletionCreateParamsNonStreaming


def _responses(streamed: bool) -> Any:
    from openai.types.responses import response_create_params as types

    found = types.ResponseCreateParamsStreaming
    return found if streamed else types.ResponseCreateParamsNonStreaming


def _messages(streamed: bool) -> Any:
    from anthropic.types import message_create_params as types

    found = types.MessageCreateParamsStreaming
    return found if streamed else types.MessageCreateParamsNonStreaming


_TYPES: dict[str, Callable[[bool], Any]] = {
    "chat_completions": _chat,
    "responses": _responses,
    "anthropic_messages": _messages,
}
