"""Makes the results of servers fit the protocol, piece by piece, before the SDK checks them.

The SDK refuses a result as a whole for one odd member. Here each tool, prompt, resource and block
is looked at by itself: readable parts are kept in the simplest valid form, odd parts are shown as
what it is, and a tool that can't be used is left out by name.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mcp.shared.dispatcher import CallOptions, OnNotify, OnNotifyIntercept, OnRequest
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types import UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import (
    KNOWN_PROTOCOL_VERSIONS,
    MODERN_PROTOCOL_VERSIONS,
    OLDEST_SUPPORTED_VERSION,
)

from agentcli.mcp.transports import Streams
from agentcli.plain_json import plain

_DATA_URL = re.compile(r"data:([\w.+/-]*)(?:;[^,;]*)*?(;base64)?,(.*)", re.DOTALL)
_MOST_CHARS = 2_000
"""Most characters that are shown of a block of an unknown kind."""

JSONObject = dict[str, Any]


class UnknownVersion(Exception):
    """A server speaks a version of the protocol that we don't; the text names both."""


class Fitting(JSONRPCDispatcher[TransportContext]):
    """Takes requests to a server, and returns results that fit. `unfit` has the tools that the last
    listing left out, each with the reason; `on_change` is called when the server says that its
    tools changed."""

    def __init__(self, streams: Streams, on_change: Callable[[], None]) -> None:
        super().__init__(*streams)
        self.unfit: list[tuple[str, str]] = []
        self._on_change = on_change

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        **related: Any,
    ) -> JSONObject:
        raw = await super().send_raw_request(method, params, opts, **related)
        if not isinstance(raw.get("_meta", {}), dict):
            raw = {key: value for key, value in raw.items() if key != "_meta"}
        match method:
            case "initialize" | "server/discover":
                return _introduction(raw)
            case "tools/list":
                self.unfit = self.unfit if (params or {}).get("cursor") else []
                if not isinstance(raw.get("tools"), list):
                    self.unfit.append(("a page of its list", "it is no list"))
                return _listing(raw, "tools", self._tools)
            case "prompts/list":
                return _listing(raw, "prompts", _prompts)
            case "resources/list":
                return _listing(raw, "resources", _resources)
            case "tools/call" if raw.get("resultType", "complete") == "complete":
                return _tool_result(raw)
            case "resources/read":
                return {**raw, "contents": [_content(each) for each in _list(raw, "contents")]}
            case "prompts/get":
                return {**raw, "messages": list(_messages(_list(raw, "messages")))}
        return raw

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        **options: Any,
    ) -> None:
        def intercept(method: str, params: Mapping[str, Any] | None) -> bool:
            if method == "notifications/tools/list_changed":
                self._on_change()
            return on_notify_intercept is not None and on_notify_intercept(method, params)

        await super().run(on_request, on_notify, intercept, **options)

    def _tools(self, items: list[Any]) -> Iterator[JSONObject]:
        for number, item in enumerate(items, 1):
            name = _text(item, "name")
            if not name:
                self.unfit.append((f"tool {number}", "it has no name"))
            elif not isinstance(schema := item.get("inputSchema"), dict):
                said = "no schema" if schema is None else "a schema that is no object"
                self.unfit.append((name, f"it has {said}"))
            else:
                hints = item.get("annotations")
                reads = isinstance(hints, dict) and hints.get("readOnlyHint") is True
                yield {
                    "name": name,
                    "description": _text(item, "description") or _text(item, "title"),
                    "inputSchema": plain(schema),
                    "annotations": {"readOnlyHint": reads},
                }


def _introduction(raw: JSONObject) -> JSONObject:
    """Raises UnknownVersion, and MCPError for a version that is agreed on in another way."""
    version = str(raw.get("protocolVersion", OLDEST_SUPPORTED_VERSION))
    if version not in KNOWN_PROTOCOL_VERSIONS:
        ours = f"{OLDEST_SUPPORTED_VERSION} to {KNOWN_PROTOCOL_VERSIONS[-1]}"
        raise UnknownVersion(f"it speaks version {version[:40]} of the protocol, and agent {ours}")
    if version in MODERN_PROTOCOL_VERSIONS:
        # These are not agreed on in this way; this makes us ask again in theirs.
        raise MCPError(UNSUPPORTED_PROTOCOL_VERSION, f"version {version}")
    given = raw.get("capabilities")
    given = given if isinstance(given, dict) else {}
    can = {
        name: {"listChanged": isinstance(each, dict) and each.get("listChanged") is True}
        for name in ("tools", "prompts", "resources")
        if (each := given.get(name, False)) is not False
    }
    result = {key: raw[key] for key in raw if key != "instructions"}
    if "supportedVersions" not in raw:
        result["protocolVersion"] = version
    info = raw.get("serverInfo")
    named = {"name": _text(info, "name"), "version": _text(info, "version")}
    # A server that says nothing of what it can do is asked for tools.
    return {**result, "capabilities": can or {"tools": {}}, "serverInfo": named}


def _listing(
    raw: JSONObject, key: str, read: Callable[[list[Any]], Iterator[JSONObject]]
) -> JSONObject:
    following = raw.get("nextCursor")
    has_more = bool(following) and isinstance(following, str | int)
    cursor = {"nextCursor": str(following)} if has_more else {}
    rest = {name: value for name, value in raw.items() if name != "nextCursor"}
    return {**rest, key: list(read(_list(raw, key))), **cursor}


def _prompts(items: list[Any]) -> Iterator[JSONObject]:
    for item in items:
        if name := _text(item, "name"):
            arguments = [
                {"name": argument, "required": each.get("required") is True}
                for each in _list(item, "arguments")
                if (argument := _text(each, "name"))
            ]
            said = _text(item, "description") or _text(item, "title")
            yield {"name": name, "description": said, "arguments": arguments}


def _resources(items: list[Any]) -> Iterator[JSONObject]:
    for item in items:
        if uri := _text(item, "uri"):
            name = _text(item, "name") or uri
            yield {"uri": uri, "name": name, "description": _text(item, "description")}


def _messages(items: list[Any]) -> Iterator[JSONObject]:
    for item in items:
        role = "assistant" if _text(item, "role") == "assistant" else "user"
        content = item.get("content") if isinstance(item, dict) else item
        for each in content if isinstance(content, list) else [content]:
            yield {"role": role, "content": _block(each)}


def _tool_result(raw: JSONObject) -> JSONObject:
    known = {"content", "structuredContent", "toolResult", "isError", "resultType", "_meta"}
    content = raw.get("content", raw.get("toolResult"))
    if not known & raw.keys() - {"isError", "resultType", "_meta"}:
        content = {key: raw[key] for key in raw if key not in known} or None
        content = content if content is None else _json(content)
    items = content if isinstance(content, list) else [content]
    structured = raw.get("structuredContent")
    data = structured if isinstance(structured, dict) else {"result": structured}
    return {
        **{key: raw[key] for key in ("_meta", "resultType") if key in raw},
        "content": [_block(each) for each in items if each is not None],
        "isError": str(raw.get("isError")).lower() in ("true", "1"),
        **({} if structured is None else {"structuredContent": data}),
    }


def _content(item: Any) -> JSONObject:
    """Return what a resource contains, as text or as an image."""
    block = _block({"type": "resource", "resource": item})
    if block["type"] == "image":
        return {"uri": "", "mimeType": block["mimeType"], "blob": block["data"]}
    return {"uri": "", "text": block["text"]}


def _block(block: Any) -> JSONObject:
    """Return a block of content as text or as an image. What can't be shown is named."""
    if not isinstance(block, dict):
        return _said(block if isinstance(block, str) else _json(block))
    kind = _text(block, "type") or next((key for key in ("text", "data") if key in block), "")
    mime = _text(block, "mimeType")
    match kind:
        case "text":
            text = block.get("text")
            return _said(text if isinstance(text, str) else _json(text))
        case "image" | "image_url" | "data":
            source = block.get("source")
            if isinstance(source, dict):
                return _image(_text(source, "data"), _text(source, "media_type"))
            link = block.get("image_url", block.get("url"))
            found = _text(link, "url") if isinstance(link, dict) else link
            data = _text(block, "data")
            return _image(data or (found if isinstance(found, str) else ""), mime)
        case "audio":
            return _said(f"[audio ({mime}), {_size(_text(block, 'data'))}, is not played]")
        case "resource_link":
            uri, name = _text(block, "uri"), _text(block, "name")
            return _said(f"[resource {uri}: {name}]" if name else f"[resource {uri}]")
        case "resource" if isinstance(block.get("resource"), dict):
            resource = block["resource"]
            if isinstance(text := resource.get("text"), str):
                return _said(text)
            uri, mime, data = (_text(resource, key) for key in ("uri", "mimeType", "blob"))
            if mime.startswith("image/"):
                return _image(data, mime)
            return _said(f"[{uri} ({mime or 'unknown'}), {_size(data)}, is not shown]")
    said = _json({key: block[key] for key in block if key != "type"})[:_MOST_CHARS]
    return _said(f"[content of the unknown kind {kind}: {said}]" if kind else said)


def _image(data: str, mime: str) -> JSONObject:
    if found := _DATA_URL.match(data):
        mime, data = found[1] or mime, found[3]
    elif re.match(r"\w+://", data):
        return _said(f"[an image at {data[:_MOST_CHARS]}]")
    data = "".join(data.split())
    if not data:
        return _said("[an image without data]")
    if mime == "image/svg+xml":
        # An image that is text.
        try:
            return _said(base64.b64decode(data).decode("utf-8", "replace"))
        except (binascii.Error, ValueError):
            return _said(f"[an image ({mime}), {_size(data)}, is not shown]")
    return {"type": "image", "data": data, "mimeType": mime or "image/png"}


def _said(text: str) -> JSONObject:
    return {"type": "text", "text": text}


def _text(item: Any, key: str) -> str:
    """Return the text under `key`; "" if there is none."""
    value = item.get(key) if isinstance(item, dict) else None
    return value if isinstance(value, str) else ""


def _list(item: Any, key: str) -> list[Any]:
    value = item.get(key) if isinstance(item, dict) else None
    return value if isinstance(value, list) else []


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _size(encoded: str) -> str:
    return f"{len(encoded) * 3 // 4:,} bytes"
