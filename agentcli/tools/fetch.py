"""fetch: get a web page as Markdown, or whatever else is at an address."""

from __future__ import annotations

import mimetypes
import re
from pathlib import Path
from typing import Any

from agentcli.errors import ToolError, os_error_text
from agentcli.events.actions import BrowseURLAction
from agentcli.events.observations import BrowserOutputObservation
from agentcli.knowledge.instructions import wrap_in_tag
from agentcli.shell.output import SOURCE_HEAD_SHARE, kept_text
from agentcli.shell.variables import WITHHELD
from agentcli.tools.base import Effect, Tool, ToolArguments, ToolContext, ToolResult, with_notes
from agentcli.web.addresses import Page
from agentcli.workspace.images import ImageFault, data_url
from agentcli.workspace.names import output_name, size_text

_LONGEST_TITLE = 200
_SUFFIX = re.compile(r"\.\w{1,8}", re.ASCII)


class Arguments(ToolArguments):
    """Fetch a web page as Markdown, or text, JSON, an image, a PDF."""

    url: str


def run(args: Arguments, ctx: ToolContext) -> ToolResult:
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


TOOL = Tool(
    "fetch",
    Arguments,
    Effect.NETWORK,
    run,
    BrowseURLAction,
    BrowserOutputObservation,
    switch="tools.enable_fetch",
    rules="url",
)
