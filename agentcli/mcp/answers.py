"""What servers answer, in our own types: text for the model, images, and what they offer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Answer:
    """The answer of a tool, a resource or a prompt. `images` are data URLs; `error` means that the
    tool failed."""

    text: str = ""
    images: tuple[str, ...] = ()
    structured: dict[str, Any] | None = None
    error: bool = False


@dataclass(frozen=True)
class ServerTool:
    """A tool as its server describes it: `name` and `description` are the server's words."""

    name: str
    description: str = ""
    schema: dict[str, Any] = field(default_factory=dict)
    read_only: bool = False
    """Whether the server says that the tool only reads; nobody checks that."""


@dataclass(frozen=True)
class ServerPrompt:
    """A prompt of a server. Each of `arguments` is a name, and whether it is required."""

    name: str
    description: str = ""
    arguments: Sequence[tuple[str, bool]] = ()


@dataclass(frozen=True)
class ServerResource:
    uri: str
    name: str = ""
    description: str = ""


@dataclass(frozen=True)
class ServerFeatures:
    """Everything that a server offers. `title` is the name it gives itself, with its version."""

    title: str = ""
    tools: Sequence[ServerTool] = ()
    prompts: Sequence[ServerPrompt] = ()
    resources: Sequence[ServerResource] = ()
    may_change: bool = False
    """Whether the server tells when its tools change."""
    unfit: Sequence[tuple[str, str]] = ()
    """Tools that can't be used, each with the reason."""
