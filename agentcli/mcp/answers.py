"""What servers answer, in our terms: text for the model, images, and lists of what they offer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Answer:
    """Of a tool, a resource or a prompt. `images` are data URLs; `error`: the tool failed."""

    text: str = ""
    images: tuple[str, ...] = ()
    structured: dict[str, Any] | None = None
    error: bool = False


@dataclass(frozen=True)
class ServerTool:
    """As its server tells of it: `name` and `description` are the server's words."""

    name: str
    description: str = ""
    schema: dict[str, Any] = field(default_factory=dict)
    read_only: bool = False
    """The server says that it only reads; nobody checks that."""


@dataclass(frozen=True)
class ServerPrompt:
    """`arguments`: name, and whether it must be given."""

    name: str
    description: str = ""
    arguments: Sequence[tuple[str, bool]] = ()


@dataclass(frozen=True)
class ServerResource:
    uri: str
    name: str = ""
    description: str = ""


@dataclass(frozen=True)
class Offer:
    """All that a server offers. `title`: what it calls itself, with its version."""

    title: str = ""
    tools: Sequence[ServerTool] = ()
    prompts: Sequence[ServerPrompt] = ()
    resources: Sequence[ServerResource] = ()
    templates: Sequence[str] = ()
    """Of URIs that stand for many resources, as file:///{path}."""
