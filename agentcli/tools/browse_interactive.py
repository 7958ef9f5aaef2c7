"""browse_interactive: act on the page that is open in the session's browser."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from agentcli.errors import ToolError, os_error_text
from agentcli.events.actions import BrowseInteractiveAction
from agentcli.events.observations import BrowserOutputObservation
from agentcli.knowledge.instructions import wrap_in_tag
from agentcli.tools.base import (
    Effect,
    Seconds,
    Tool,
    ToolArguments,
    ToolContext,
    ToolResult,
    with_notes,
)
from agentcli.web.addresses import split_url

if TYPE_CHECKING:
    from agentcli.browser.browser import Visit

MAX_SHOWN_CHARS = 12_000
"""Characters shown of a page; a file has all of it."""
_NEEDS_VALUE = ("fill", "press", "select", "wait")
_NEEDS_ELEMENT = ("click", "fill", "select", "download")


class Step(ToolArguments):
    do: Literal[
        "click", "fill", "press", "select", "scroll", "wait", "back", "screenshot", "download"
    ]
    on: str = ""
    value: str = ""


class Arguments(ToolArguments):
    """Act on the page in a real browser, which stays open: first go to `url` if given, then do the
    steps in order, up to the first that fails. `on` is an element's number (e12), label or text, or
    css=SELECTOR. `value`: text to fill, key to press (Enter), option, down/up/top/bottom or pixels
    to scroll, seconds or a text to wait for. Shows the page's elements at the end; a picture only
    by a screenshot step. download keeps the file that a click brings. Servers you started are at
    their 127.0.0.1 addresses."""

    url: str | None = None
    steps: list[Step] = []
    timeout: Seconds = 60

    def wishes(self) -> list[dict[str, str]]:
        """Return the steps as they are recorded and carried out. Raises ToolError."""
        told = [{"do": "goto", "value": checked(self.url)}] if self.url else []
        for step in self.steps:
            if step.do in _NEEDS_VALUE and not step.value and step.do != "fill":
                raise ToolError(f"The step {step.do} needs a value.")
            if step.do in _NEEDS_ELEMENT and not step.on:
                raise ToolError(f"The step {step.do} needs on: an element such as e12.")
            told.append({k: v for k, v in step.model_dump().items() if v or k == "do"})
        if not told:
            raise ToolError("Give a url, steps, or both.")
        return told


def checked(url: str) -> str:
    """Return `url`. Raises ToolError if it is not the address of a page."""
    split_url(url)
    return url


def run(args: Arguments, ctx: ToolContext) -> ToolResult:
    return perform(args.wishes(), args.timeout, ctx)


def perform(steps: Sequence[Mapping[str, str]], timeout: float, ctx: ToolContext) -> ToolResult:
    """Carry out the steps and describe the page. Raises ToolError."""
    if ctx.browser is None:
        raise ToolError("This session has no browser.", error_id="no_browser")
    visit = ctx.browser.perform(steps, timeout)
    return ToolResult(
        _described(visit, ctx),
        images=tuple(f"data:image/png;base64,{shot}" for shot in visit.screenshots),
        data={
            "url": visit.url,
            "status_code": visit.status,
            "screenshot": _kept_screenshot(visit, ctx),
            "error": bool(visit.error),
        },
    )


def _described(visit: Visit, ctx: ToolContext) -> str:
    """Return the resulting page, tagged as data, followed by notes."""
    notes = list(visit.notes)
    notes += [f"Downloaded: {file} ({file.stat().st_size:,} bytes)" for file in visit.files]
    page = "No page is open." if not visit.url else ""
    if visit.url:
        text, cut = _shortened(visit.text, ctx)
        notes += [cut] if cut else []
        status = {"status": str(visit.status)} if visit.status is not None else {}
        page = wrap_in_tag("page", text, url=visit.url, title=visit.title[:200], **status)
    return with_notes(page, *notes, visit.error)


def _kept_screenshot(visit: Visit, ctx: ToolContext) -> str | None:
    """Save the last screenshot to a file for people; the model gets all of them."""
    for shot in visit.screenshots[-1:]:
        with suppress(OSError):
            return str(ctx.outputs.add("screenshot-{}.png", base64.b64decode(shot)))
    return None


def _shortened(text: str, ctx: ToolContext) -> tuple[str, str]:
    """Return the beginning, up to the end of a line, and a note on where the rest is."""
    most = min(MAX_SHOWN_CHARS, ctx.max_output_chars)
    if len(text) <= most:
        return text, ""
    shown = text[:most].rpartition("\n")[0] or text[:most]
    more = f"{text.count(chr(10)) - shown.count(chr(10)):,} more lines"
    try:
        file = ctx.outputs.add("page-{}.txt", text.encode(errors="replace"))
    except OSError as error:
        return shown, f"{more} were not kept: {os_error_text(error)}"
    return shown, f"{more} are in {file}: grep or read them there"


def _action(url: str | None, steps: list[Step], timeout: float) -> BrowseInteractiveAction:
    wishes = Arguments(url=url, steps=steps).wishes()
    return BrowseInteractiveAction(steps=tuple(wishes), timeout=timeout)


TOOL = Tool(
    name="browse_interactive",
    arguments=Arguments,
    effect=Effect.NETWORK,
    switch="tools.enable_browsing",
    rules="url",
    run=run,
    to_action=_action,
    to_observation=BrowserOutputObservation,
)
