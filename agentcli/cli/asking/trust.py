"""Ask the user at the terminal whether to trust what a folder brings along."""

from __future__ import annotations

import json
import termios
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from agentcli.app.configuration.trust import Answer, settings_of
from agentcli.errors import ConfigError
from agentcli.security.trust import PROJECT_CONFIG, TOOL_SERVERS, Fingerprint, TrustState
from agentcli.ui.questions import Questions
from agentcli.ui.unambiguous_text import reveal_hidden


def ask_trust(found: Fingerprint, state: TrustState) -> Answer:
    """Show the user at the terminal what `found` would do, and ask whether to trust it. The end
    of input counts as a no, and so does a terminal that is gone; an interrupt passes through."""
    question = "\n".join(
        [
            "",
            *would_take_effect(found, state),
            "",
            "Do you trust it? Until you do, only settings stricter than yours apply.",
            "  y      yes, as it is now",
            "  n      no, not this time",
            "  never  no, and do not ask again",
            "> ",
        ]
    )
    with suppress(OSError, termios.error), Questions() as terminal:
        while (answer := terminal.ask(question)) is not None:
            match answer.lower():
                case "y" | "yes":
                    return "yes"
                case "n" | "no" | "":
                    return "no"
                case "never":
                    return "never"
            question = "  y, n or never > "
    return "no"


def would_take_effect(found: Fingerprint, state: TrustState) -> Iterator[str]:
    """Yield lines that show in full what would take effect, with every character visible."""
    folder = reveal_hidden(str(found.workspace))
    if found.fault:
        yield f"{folder} can't be trusted: {reveal_hidden(found.fault)}"
        return
    if not found.files:
        yield f"{folder} has nothing that needs trust"
        return
    when = "now" if state.trusted else "if trusted"
    yield f"{folder} has settings or files that take effect {when}:"
    for name in state.changed:
        yield f"  changed since you trusted it: {reveal_hidden(name)}"
    try:
        for key, value in settings_of(found).items():
            yield from _setting(key, value)
    except ConfigError as error:
        yield "  settings with a mistake, which would stop every run once trusted:"
        yield f"    {reveal_hidden(error.message)}"
    if TOOL_SERVERS in found.contents:
        yield f"  {TOOL_SERVERS} (tool servers)"
        yield from _block(found.contents[TOOL_SERVERS].decode("utf-8", "replace"))
    for name in found.files:
        if name not in (PROJECT_CONFIG, TOOL_SERVERS):
            yield f"  file {reveal_hidden(name)}"


def _setting(key: str, value: Any) -> Iterator[str]:
    if not key.startswith("hooks.") or not isinstance(value, list):
        shown = json.dumps(value, ensure_ascii=False, default=str)
        yield f"  sets {reveal_hidden(key)} = {reveal_hidden(shown)}"
        return
    for hook in value:
        if isinstance(hook, dict):
            matcher = f" on {hook['matcher']}" if hook.get("matcher") else ""
            yield f"  runs as a hook, at {reveal_hidden(key.removeprefix('hooks.') + matcher)}:"
            yield from _block(str(hook.get("command", "")))


def _block(text: str) -> Iterator[str]:
    return (f"  │ {reveal_hidden(line)}" for line in text.rstrip("\n").split("\n"))
