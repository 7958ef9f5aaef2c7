"""Putting together what a stream sends in pieces: calls, and members that only a provider knows.

Servers differ in how they label the pieces, so a call is recognised by its identity and not by its
position, and members are merged by their form and not by a list of names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from agentcli.llm.wire_protocol import tool_call
from agentcli.messages import ToolCall

_WHOLE = re.compile(
    r"(^|_)(id|type|format|role|name|status|phase|model|index|signature|opaque|data)$|^encrypted"
)
"""Members that arrive whole. Other text grows piece by piece."""
_SEALS = ("signature", "data", "encrypted_content")
"""Members that end a part: text after one belongs to another part."""
_DECODER = json.JSONDecoder(strict=False)


def merge(into: dict[str, Any], piece: Mapping[str, Any]) -> None:
    """Add the members of `piece` to `into`; null adds nothing."""
    for name, value in piece.items():
        if value is not None:
            into[name] = _merged(name, into.get(name), value)


def _merged(name: str, old: Any, new: Any) -> Any:
    if isinstance(old, str) and isinstance(new, str):
        return (new or old) if _WHOLE.search(name) else old + new
    if isinstance(old, dict) and isinstance(new, Mapping):
        merge(old, new)
        return old
    if isinstance(new, Mapping):
        fresh: dict[str, Any] = {}
        merge(fresh, new)
        return fresh
    if isinstance(new, list):
        parts = old if isinstance(old, list) else []
        for part in new:
            _merge_part(parts, part)
        return parts
    return new


def _merge_part(parts: list[Any], piece: Any) -> None:
    """Add a piece of a list: to the part that it continues, or as a new part."""
    if not isinstance(piece, Mapping):
        parts.append(piece)
        return
    part = next((p for p in reversed(parts) if _continues(p, piece, p is parts[-1])), None)
    if part is None:
        part = {}
        parts.append(part)
    merge(part, piece)


def _continues(part: Any, piece: Mapping[str, Any], is_last: bool) -> bool:
    if not isinstance(part, dict):
        return False
    for name in ("type", "id", "index"):
        ours, theirs = part.get(name), piece.get(name)
        if ours is not None and theirs is not None and ours != theirs:
            return False
    if piece.get("index") is not None:
        return bool(part.get("index") == piece["index"])
    return is_last and not any(part.get(name) for name in _SEALS)


@dataclass
class _OpenCall:
    """A call of which pieces may still arrive."""

    index: object
    id: str = ""
    name: str = ""
    text: list[str] = field(default_factory=list)
    value: object = None
    """The arguments, if they arrived as something other than text."""
    beside: dict[str, Any] = field(default_factory=dict)
    """Members that are not ours to make."""

    @property
    def is_complete(self) -> bool:
        ended = bool(self.text) and self.text[-1].rstrip().endswith("}")
        return self.value is not None or (ended and bool(_objects("".join(self.text))))

    def finished(self) -> ToolCall:
        arguments = self.value if self.value is not None else whole_arguments(self.text)
        return tool_call(self.id, self.name, arguments)


@dataclass
class OpenCalls:
    """The calls of a reply to Chat Completions, in the order in which they began."""

    calls: list[_OpenCall] = field(default_factory=list)

    def take(self, pieces: Sequence[Mapping[str, Any]]) -> list[str]:
        """Add the pieces of one chunk; return the names of the calls that begin with them."""
        named = []
        for position, piece in enumerate(pieces):
            function = piece.get("function") or {}
            if not isinstance(function, Mapping):
                function = {}
            flat = function or piece
            name, arguments = str(flat.get("name") or ""), flat.get("arguments")
            call = self._of(piece, name, arguments, position, alone=len(pieces) == 1)
            if name and not call.name:
                named.append(name)
            call.id = call.id or str(piece.get("id") or "")
            call.name = call.name or name
            if isinstance(arguments, str):
                call.text.append(arguments)
            elif arguments:
                call.value = arguments
            _merge_beside(call.beside, piece, function)
        return named

    def finished(self) -> list[ToolCall]:
        return [call.finished() for call in self.calls]

    def beside(self) -> list[dict[str, Any]]:
        """Return for each call its members that are not ours to make; nothing if none has any."""
        members = [call.beside for call in self.calls]
        return members if any(members) else []

    def _of(
        self, piece: Mapping[str, Any], name: str, arguments: object, position: int, *, alone: bool
    ) -> _OpenCall:
        """Return the call that a piece belongs to, a new one if it begins one."""
        index, call_id = piece.get("index"), str(piece.get("id") or "")
        if index is None:
            found = self.calls[-1] if self.calls and (alone or not name) else None
            if not alone and not name and not call_id and position < len(self.calls):
                found = self.calls[position]
        else:
            found = next((c for c in reversed(self.calls) if c.index == index), None)
            if found is None and not (name or call_id) and self.calls:
                found = self.calls[-1]
        if call_id and (found is None or found.id != call_id):
            same = [
                call
                for call in self.calls
                if call.id == call_id
                and index in (None, call.index)
                and not _begins_another(call, name, arguments)
            ]
            # Some gateways give each piece an id of its own.
            is_open = found is not None and not (found.id and found.is_complete)
            late = found if is_open and not name else None
            found = same[-1] if same else late
        elif found is not None and _begins_another(found, name, arguments):
            found = None
        if found is None:
            found = _OpenCall(index)
            self.calls.append(found)
        return found


def _begins_another(call: _OpenCall, name: str, arguments: object) -> bool:
    """Whether a named piece at the place of `call` is another call, not a repetition of its
    head."""
    if not name or not call.name:
        return False
    if name != call.name:
        return True
    repeated = isinstance(arguments, str) and arguments == "".join(call.text)
    return bool(arguments) and call.is_complete and not repeated


def _merge_beside(
    beside: dict[str, Any], piece: Mapping[str, Any], function: Mapping[str, Any]
) -> None:
    own = {"index", "id", "type", "function", *(() if function else ("name", "arguments"))}
    merge(beside, {name: value for name, value in piece.items() if name not in own})
    inner = {n: v for n, v in function.items() if n not in ("name", "arguments") and v is not None}
    if inner:
        merge(beside, {"function": inner})


def whole_arguments(pieces: Sequence[str]) -> str:
    """Return arguments from their pieces. Where a server repeats them whole, repeats in each piece
    what came before, or sends `{}` before the real ones, what remains is one object."""
    text = "".join(pieces)
    objects = _objects(text)
    grows = all(new.startswith(old) for old, new in pairwise(pieces))
    if not objects and grows and pieces and _objects(pieces[-1]):
        return pieces[-1]
    if len(objects) < 2:
        return text
    said = [each for each in objects if each]
    if all(each == said[0] for each in said):
        return json.dumps(said[0] if said else {}, ensure_ascii=False)
    return text


def _objects(text: str) -> list[dict[str, Any]]:
    """Return the JSON objects that `text` consists of; none if it is anything else."""
    found = []
    position = 0
    while rest := text[position:].lstrip():
        try:
            value, length = _DECODER.raw_decode(rest)
        except (ValueError, RecursionError):
            return []
        if not isinstance(value, dict):
            return []
        found.append(value)
        position = len(text) - len(rest) + length
    return found
