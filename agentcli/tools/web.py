"""fetch: get what is at an address; browse, browse_interactive: use the session's browser."""

from __future__ import annotations

import base64
import mimetypes
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agentcli.errors import ToolError, os_error_text
from agentcli.events.actions import BrowseInteractiveAction, BrowseURLAction
from agentcli.events.observations import BrowserOutputObservation
from agentcli.knowledge.instructions import wrap_in_tag
from agentcli.shell.output import SOURCE_HEAD_SHARE, kept_text
from agentcli.shell.variables import WITHHELD
from agentcli.tools.base import (
    Effect,
    Seconds,
    Tool,
    ToolArguments,
    ToolContext,
    ToolResult,
    with_notes,
)
from agentcli.web.addresses import Page, split_url
from agentcli.workspace.images import ImageFault, data_url
from agentcli.workspace.names import output_name, size_text

if TYPE_CHECKING:
    from agentcli.browser.browser import Visit


_LONGEST_TITLE = 200
_SUFFIX = re.compile(r"\.\w{1,8}", re.ASCII)


class FetchArguments(ToolArguments):
    """Fetch a web page as Markdown, or text, JSON, an image, a PDF."""

    url: str


def _fetch(args: FetchArguments, ctx: ToolContext) -> ToolResult:
    from agentcli.web.pages import fetch, form_of

    if WITHHELD in args.url:
        raise ToolError(
            f"{WITHHELD} in an address stands for a secret, which is sent nowhere.",
            error_id="bad_url",
        )
    page = fetch(args.url, ctx.page_limits, ctx.judge_url)
    facts = {
        "url": page.url,
        "status_code": page.status_code,
        "error": page.status_code >= 400,
    }
    if page.leads_to:
        told = f"[{page.status}: redirects to {page.leads_to}, which is another site: fetch that]"
        return ToolResult(told, data=facts)
    match form_of(page):
        case "image":
            return _image(page, facts)
        case "binary":
            return ToolResult(_saved(page, ctx), data=facts)
        case form:
            return ToolResult(_text(page, form, ctx), data=facts)


def _text(page: Page, form: Any, ctx: ToolContext) -> str:
    """Return the page's text, tagged as data from outside."""
    from agentcli.web.pages import readable

    found = readable(page, form)
    cut = f"the page is cut: {page.cut}" if page.cut else ""
    most, share = ctx.max_output_chars, SOURCE_HEAD_SHARE
    kept = kept_text(found.text, ctx.outputs, "page-{}.md", most, head_share=share)
    text = kept.text or "[the page has no text]"
    about = {"url": page.url, "status": page.status}
    if title := " ".join(found.title.split())[:_LONGEST_TITLE]:
        about["title"] = title
    return with_notes(wrap_in_tag("page", text, **about), found.note, cut)


def _image(page: Page, facts: dict[str, Any]) -> ToolResult:
    try:
        url = data_url(page.data)
    except ImageFault as fault:
        raise ToolError(f"{page.url} {fault}.", error_id="unusable_image") from fault
    told = f"[{page.status}: {page.content_type}, {size_text(len(page.data))}]"
    return ToolResult(told, images=(url,), data=facts)


def _saved(page: Page, ctx: ToolContext) -> str:
    """Save content that is not text to a file for other programs to look at."""
    size, kind = size_text(len(page.data)), page.content_type or "of unknown type"
    told = f"{page.status}: {kind}, {size}"
    if page.cut:
        return f"[{told}, not kept: {page.cut}]"
    own = Path(page.url.partition("?")[0]).suffix
    suffix = own if _SUFFIX.fullmatch(own) else mimetypes.guess_extension(kind) or ".bin"
    try:
        path = ctx.outputs.add(f"page-{{}}{suffix}", page.data)
    except OSError as error:
        return f"[{told}, not kept: {os_error_text(error)}]"
    return f"[{told}, saved as {output_name(path)}]"


FETCH = Tool(
    "fetch",
    FetchArguments,
    Effect.NETWORK,
    _fetch,
    BrowseURLAction,
    BrowserOutputObservation,
    switch="tools.enable_fetch",
    rules="url",
)


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


class InteractArguments(ToolArguments):
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


def _browse_interactive(args: InteractArguments, ctx: ToolContext) -> ToolResult:
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
    wishes = InteractArguments(url=url, steps=steps).wishes()
    return BrowseInteractiveAction(steps=tuple(wishes), timeout=timeout)


BROWSE_INTERACTIVE = Tool(
    name="browse_interactive",
    arguments=InteractArguments,
    effect=Effect.NETWORK,
    switch="tools.enable_browsing",
    rules="url",
    run=_browse_interactive,
    to_action=_action,
    to_observation=BrowserOutputObservation,
)


class BrowseArguments(ToolArguments):
    """Open a page in a real browser, such as one that needs JavaScript. Shows its elements with
    their numbers, which browse_interactive works on."""

    url: str


def _browse(args: BrowseArguments, ctx: ToolContext) -> ToolResult:
    return perform([{"do": "goto", "value": args.url}], 60, ctx)


def _browse_action(url: str) -> BrowseInteractiveAction:
    return BrowseInteractiveAction(steps=({"do": "goto", "value": checked(url)},))


BROWSE = Tool(
    name="browse",
    arguments=BrowseArguments,
    effect=Effect.NETWORK,
    switch="tools.enable_browsing",
    rules="url",
    run=_browse,
    to_action=_browse_action,
    to_observation=BrowserOutputObservation,
)

TOOL = (BROWSE, BROWSE_INTERACTIVE, FETCH)
