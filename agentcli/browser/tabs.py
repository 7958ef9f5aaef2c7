"""The pages open in the browser: what they may load, where they may lead, what the newest shows."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import (
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Download,
    Error,
    Page,
    Request,
    Response,
    Route,
)

from agentcli.security.policy.rule import is_loopback
from agentcli.web.addresses import bare_host, site_of

_CLICKABLE = " [cursor=pointer]"
_NUMBER = re.compile(r" \[ref=(?:f\d+)?e\d+\]")
_ACTED_ON = re.compile(
    r"- (?:button|link|textbox|searchbox|combobox|listbox|option|checkbox|radio|switch|slider"
    r"|spinbutton|tab|menuitem\w*|treeitem|iframe)\b"
)
_PLAIN_BOX = re.compile(r"^- generic(?: \[active\])?(?: \[ref=(?:f\d+)?e\d+\])?")


def compact(snapshot: str) -> str:
    """Shorten a Playwright snapshot. Only elements that can be acted on keep their numbers, and the
    number alone says that an element is clickable. Boxes without a text of their own are removed,
    and their content moves to the left."""
    gone: list[int] = []
    lines = []
    for line in snapshot.split("\n"):
        text = line.lstrip(" ")
        depth = len(line) - len(text)
        while gone and gone[-1] >= depth:
            gone.pop()
        if _CLICKABLE not in text and (box := _PLAIN_BOX.match(text)):
            text = f"- text{text[box.end() :]}"
            if text == "- text:":
                gone.append(depth)
                continue
            if text == "- text":
                continue
        if _CLICKABLE not in text and not _ACTED_ON.match(text):
            text = _NUMBER.sub("", text, count=1)
        lines.append(" " * (depth - 2 * len(gone)) + text.replace(_CLICKABLE, "", 1))
    return "\n".join(lines)


MOST_TABS = 4
MOST_DIALOGS = 10
MOST_ELEMENTS = 20_000
"""Largest page, in elements, whose elements are shown; of a larger one only the text is."""
_MOST_NOTES = 12
_MOST_SAID = 8
_LONGEST_NOTE = 300
_SHOW_S = 8.0
_REPORT_S = 3.0
_CLOSE_S = 10.0
_LONGEST_TEXT = 2_000_000
SCHEMES = ("http", "https")
LEFT = "about:blank"
_COUNT = "document.getElementsByTagName('*').length"
_TEXT = f"document.body ? document.body.innerText.slice(0, {_LONGEST_TEXT}) : ''"


class StepFailed(Exception):
    """A step failed; the text says why, in words for the model."""


class Tabs:
    """The open pages. Commands can serve anything they know as a page of this machine. So that it
    can't leave the sandbox through the browser, pages of this machine are never open together with
    pages from elsewhere, and reach no host that no step went to. `hang_up` ends all connections."""

    def __init__(self, hang_up: Callable[[], None]) -> None:
        self._hang_up = hang_up
        self._pages: list[Page] = []
        self._status: int | None = None
        self._sites: set[str] = set()
        """Sites that steps went to: pages can't lead anywhere else by themselves."""
        self._inside = False
        """Whether the open pages are of this machine, or of the sandbox."""
        self._hosts: set[str] = set()
        """Hosts that pages have requested something from."""
        self._opening = 0
        """Number of tabs that were requested and are not open yet."""
        self._changed = asyncio.Condition()
        self._notes: dict[str, str] = {}
        self._said: list[str] = []
        """Console errors, dialogs and similar messages of pages."""
        self._dialogs = 0
        self._wanted: asyncio.Future[Download] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def follow(self, context: BrowserContext) -> None:
        self._context = context
        context.on("page", self._opened)
        context.on("dialog", self._asked)
        context.on("request", lambda request: self._soon(self._record_host(request.url)))
        context.on("response", self._responded)
        await context.route("**/*", self._judge)
        self._pages = []
        for page in context.pages:
            self._opened(page)

    async def wants(self, host: str) -> bool:
        """Return whether a page has requested something from `host`; the browser's own requests are
        not served. Waits a moment, as Playwright may report the page's request late."""
        wanted = bare_host(host)
        with suppress(TimeoutError):
            async with asyncio.timeout(_REPORT_S), self._changed:
                await self._changed.wait_for(lambda: wanted in self._hosts)
        return wanted in self._hosts and self._may_reach(f"http://{host}/")

    def _may_reach(self, url: str) -> bool:
        """Return whether the open pages may load something from `url`."""
        if not self._inside:
            return not is_loopback(url)
        host = site_of(urlsplit(url).hostname or "")
        return is_loopback(url) or host in {site.partition(":")[0] for site in self._sites}

    async def _record_host(self, url: str) -> None:
        with suppress(ValueError):
            async with self._changed:
                self._hosts.add(bare_host(urlsplit(url).hostname or ""))
                self._changed.notify_all()

    def begin(self) -> None:
        """Begin a new call: forget the notes of the one before."""
        self._notes, self._said, self._dialogs = {}, [], 0

    @property
    def newest(self) -> Page | None:
        return self._pages[-1] if self._pages else None

    async def go(self, url: str, seconds: float) -> None:
        """Go to `url`; from now on pages may lead to its site. Raises Error, StepFailed."""
        page = self.newest or await self._context.new_page()
        self._opened(page)
        if self._inside != is_loopback(url):
            await self._leave(page)
            self._inside = is_loopback(url)
        self._sites.add(_site(url))
        self._status = None
        await page.goto(url, timeout=seconds * 1000, wait_until="domcontentloaded")

    async def _leave(self, page: Page) -> None:
        """Close the other pages and all connections, and empty `page`. Raises Error, StepFailed."""
        for other in [each for each in self._pages if each is not page]:
            await self._close(other)
        if self._pages != [page]:
            raise StepFailed("the open page can't be left: it does not respond")
        await page.goto(LEFT, timeout=_CLOSE_S * 1000)
        self._hosts.clear()
        self._hang_up()

    async def tab_opened(self, seconds: float) -> None:
        """Wait for a tab that a click opened: it counts as open once it has its first page."""
        if self._opening:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds), self._changed:
                    await self._changed.wait_for(lambda: not self._opening)

    def next_download(self) -> asyncio.Future[Download]:
        """Return a future for the next download, which is accepted; all others are refused."""
        self._wanted = asyncio.get_running_loop().create_future()
        return self._wanted

    # --- what pages do by themselves ------------------------------------------------------------

    def _opened(self, page: Page) -> None:
        if page in self._pages:
            return
        self._pages.append(page)
        self._soon(self._end_opening())
        page.on("close", lambda closed: self._pages.remove(closed))
        page.on("download", self._downloading)
        page.on("console", self._logged)
        page.on("pageerror", lambda error: self._say("error", str(error)))
        page.on("websocket", lambda socket: self._soon(self._record_host(socket.url)))
        page.on("crash", lambda crashed: self.note("crash", "The page crashed."))
        if len(self._pages) > MOST_TABS:
            self.note("tabs", f"The page opened more than {MOST_TABS} tabs; the newest was closed.")
            self._soon(page.close())
        elif len(self._pages) > 1:
            self.note("tab", "A new tab was opened and is what you see.")

    async def _end_opening(self) -> None:
        async with self._changed:
            self._opening = 0
            self._changed.notify_all()

    async def _asked(self, dialog: Dialog) -> None:
        self._dialogs += 1
        self._say(f"{dialog.type}, dismissed", dialog.message)
        page = dialog.page
        with suppress(Error):
            await dialog.dismiss()
        if self._dialogs == MOST_DIALOGS and page is not None:
            self.note("dialogs", "The page kept opening dialogs and was closed.")
            await self._close(page)

    async def _close(self, page: Page) -> None:
        with suppress(Error, TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await page.close(run_before_unload=False)

    def _downloading(self, download: Download) -> None:
        if self._wanted is not None and not self._wanted.done():
            self._wanted.set_result(download)
            return
        self._say("offers a file", download.suggested_filename)
        self.note(
            "download",
            "The page offers a file, which was not downloaded: the step download does that.",
        )
        self._soon(download.cancel())

    def _responded(self, response: Response) -> None:
        with suppress(Error):
            request = response.request
            if request.is_navigation_request():
                frame = request.frame
                if frame.parent_frame is None and frame.page is self.newest:
                    self._status = response.status

    async def _judge(self, route: Route) -> None:
        """Let a page load what it may. It can't lead to another site by itself: that takes a step,
        which the policy's rules can judge."""
        request = route.request
        with suppress(Error, ValueError):
            leads = request.is_navigation_request() and self._is_whole_page(request)
            if not self._may_reach(request.url) and not (leads and self._inside):
                self.note(
                    f"loads {_site(request.url)}",
                    f"The page tried to load something from {short(_site(request.url))}, which was "
                    "blocked: a page on this machine may only reach sites already visited, and no "
                    "other page may reach this machine.",
                )
                await route.abort("aborted")
                return
            if not leads or _site(request.url) in self._sites:
                await self._record_host(request.url)
                await route.continue_()
                return
            self.note(
                f"led to {_site(request.url)}",
                f"The page leads to {short(request.url)}, another site, which was not opened: go "
                "there with url if that is wanted.",
            )
            await route.abort("aborted")

    def _is_whole_page(self, request: Request) -> bool:
        try:
            return request.frame.parent_frame is None
        except Error:
            # The request is from a tab that is just being opened.
            self._opening += 1
            return True

    def _logged(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._say("console", message.text)

    def _say(self, what: str, text: str) -> None:
        """Keep a message from a page. Only the first few are kept, as there may be no end."""
        if len(self._said) < _MOST_SAID:
            self._said.append(f"[{what}] {short(text)}")

    def note(self, key: str, text: str) -> None:
        if len(self._notes) < _MOST_NOTES or key in ("dialogs", "crash"):
            self._notes.setdefault(key, text[:_LONGEST_NOTE])

    def _soon(self, work: Any) -> None:
        async def quietly() -> None:
            with suppress(Error):
                await work

        task = asyncio.get_running_loop().create_task(quietly())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- what is seen ---------------------------------------------------------------------------

    async def state(self) -> dict[str, Any]:
        page = self.newest
        if page is not None and not _is_allowed(page.url, self._sites):
            self.note("left", f"The page had navigated to {short(page.url)}, so it was closed.")
            await self._close(page)
            page = self.newest
        text, title, url = "", "", page.url if page is not None else ""
        if page is not None and url != LEFT:
            try:
                async with asyncio.timeout(_SHOW_S * 2):
                    title = await page.title()
                    text = await self._shown(page)
            except (Error, TimeoutError):
                self.note("hangs", "The page does not respond and was closed.")
                await self._close(page)
        return {
            "url": "" if url == LEFT else url,
            "title": title,
            "status": self._status,
            "text": "\n".join([text, *self._said]),
            "notes": list(self._notes.values()),
        }

    async def _shown(self, page: Page) -> str:
        """Return the page's elements with their numbers or, if there are too many, its text."""
        async with asyncio.timeout(_SHOW_S):
            count = await page.evaluate(_COUNT)
        if isinstance(count, int) and count <= MOST_ELEMENTS:
            return compact(await page.aria_snapshot(mode="ai", timeout=_SHOW_S * 1000))
        self.note("large", f"The page has {count:,} elements, so only its text is shown.")
        return str(await page.evaluate(_TEXT))


def _is_allowed(url: str, sites: set[str]) -> bool:
    return url in ("", LEFT) or (urlsplit(url).scheme in SCHEMES and _site(url) in sites)


def _site(url: str) -> str:
    """Return host and port; a page may lead to others of its site without a step."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return ""
    return f"{site_of(parts.hostname or '')}{port}"


def short(text: str) -> str:
    """Put `text` on one line and cut it at 200 characters."""
    line = " ".join(text.split())
    return line if len(line) <= 200 else line[:199] + "…"
