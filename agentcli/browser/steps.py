"""Carry out steps in the browser, one after the other, on its newest page."""

from __future__ import annotations

import asyncio
import base64
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Error, Locator, Page

from agentcli.browser.tabs import LEFT, SCHEMES, StepFailed, Tabs, short

MOST_SCREENSHOTS = 3
"""Most screenshots in one call."""
_STEP_S, _GOTO_S = 10.0, 30.0
_QUIET_S = 1.5
"""How long a page may take to settle after the last step."""
_MOMENT_S = 0.1
"""How long the browser takes to report what a click started."""
_REF = re.compile(r"\[?(?:ref=)?((?:f\d+)?e\d+)\]?")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_CLICKED = ("button", "link", "checkbox", "radio", "tab", "menuitem")


class Steps:
    """Carries out the steps of one call."""

    def __init__(self, tabs: Tabs) -> None:
        self._tabs = tabs
        self._files: list[dict[str, str]] = []
        self._images: list[str] = []

    async def perform(self, steps: list[dict[str, str]], seconds: float) -> dict[str, Any]:
        """Do the steps until one fails or time runs out, and describe the page after them."""
        self._tabs.begin()
        end = time.monotonic() + seconds
        failed = ""
        for number, step in enumerate(steps, 1):
            try:
                async with asyncio.timeout(max(end - time.monotonic(), 0.1)):
                    await self._step(step)
                    await self._rest(step.get("do", ""), last=number == len(steps))
            except (StepFailed, Error, TimeoutError) as error:
                rest = "; the steps after it were not done" if number < len(steps) else ""
                said = " ".join(filter(None, map(step.get, ("do", "on", "value"))))
                failed = f"Step {number} ({short(said)}) failed: {_reason(error)}{rest}."
                break
        done = {"screenshots": self._images, "files": self._files, "error": failed}
        return {**await self._tabs.state(), **done}

    async def _step(self, step: dict[str, str]) -> None:
        """Do one step. Raises StepFailed, Error, TimeoutError."""
        do, on, value = step.get("do", ""), step.get("on", ""), step.get("value", "")
        if do == "goto":
            parts = urlsplit(value)
            if parts.scheme not in SCHEMES or not parts.hostname:
                raise StepFailed("an address must begin with http:// or https://")
            await self._tabs.go(value, _GOTO_S)
        elif on:
            await self._on_element(self._page(), do, on, value)
        else:
            await self._on_page(self._page(), do, value)

    async def _on_element(self, page: Page, do: str, on: str, value: str) -> None:
        element = await self._find(page, on, do)
        limit = _STEP_S * 1000
        match do:
            case "click":
                await element.click(timeout=limit)
            case "fill":
                await element.fill(value, timeout=limit)
            case "select":
                try:
                    await element.select_option(label=value, timeout=_QUIET_S * 1000)
                except Error:
                    await element.select_option(value, timeout=limit)
            case "press":
                await element.press(value, timeout=limit)
            case "scroll":
                await element.scroll_into_view_if_needed(timeout=limit)
            case "download":
                await self._download(element)
            case "screenshot":
                await self._screenshot(element)
            case _:
                raise StepFailed(f'{do} takes no "on"')

    async def _on_page(self, page: Page, do: str, value: str) -> None:
        match do:
            case "press":
                await page.keyboard.press(value)
            case "scroll":
                await self._scroll(page, value)
            case "wait" if _NUMBER.fullmatch(value):
                await asyncio.sleep(min(max(float(value), 0), _GOTO_S))
            case "wait":
                await page.get_by_text(value).first.wait_for(timeout=_GOTO_S * 1000)
            case "back":
                await page.go_back(timeout=_GOTO_S * 1000)
            case "screenshot":
                await self._screenshot(page)
            case _:
                raise StepFailed('it needs "on": the number of an element, such as e12')

    def _page(self) -> Page:
        page = self._tabs.newest
        if page is None or page.url in ("", LEFT):
            raise StepFailed("no page is open: go to one first")
        return page

    async def _find(self, page: Page, on: str, do: str) -> Locator:
        """Find the element that `on` names: by its number, a CSS selector, or its visible label or
        text."""
        if found := _REF.fullmatch(on.strip()):
            return page.locator(f"aria-ref={found[1]}")
        if on.startswith("css="):
            return page.locator(on).first
        if do in ("fill", "press"):
            ways = [page.get_by_label(on), page.get_by_placeholder(on)]
            ways.append(page.get_by_role("textbox", name=on))
        elif do == "select":
            ways = [page.get_by_label(on), page.get_by_role("combobox", name=on)]
        else:
            ways = [page.get_by_role(role, name=on) for role in _CLICKED]
            ways += [page.get_by_label(on), page.get_by_text(on)]
        for way in ways:
            if await way.count():
                return way.first
        raise StepFailed(f"nothing on the page is called {on!r}")

    async def _scroll(self, page: Page, value: str) -> None:
        height = (page.viewport_size or {"height": 800})["height"]
        far = 1_000_000
        named = {"": 0.9 * height, "down": 0.9 * height, "up": -0.9 * height}
        named |= {"top": -far, "bottom": far}
        if value not in named and not _NUMBER.fullmatch(value):
            raise StepFailed("scroll takes down, up, top, bottom or a number of pixels")
        await page.mouse.wheel(0, named[value] if value in named else float(value))

    async def _screenshot(self, what: Page | Locator) -> None:
        if len(self._images) >= MOST_SCREENSHOTS:
            raise StepFailed(f"one call takes {MOST_SCREENSHOTS} screenshots at most")
        data = await what.screenshot(type="png", timeout=_STEP_S * 1000)
        self._images.append(base64.b64encode(data).decode())

    async def _download(self, element: Locator) -> None:
        wanted = self._tabs.next_download()
        try:
            await element.click(timeout=_STEP_S * 1000)
            async with asyncio.timeout(_GOTO_S):
                download = await wanted
                path = await download.path()
        except TimeoutError as error:
            raise StepFailed("it started no download") from error
        finally:
            wanted.cancel()
        self._files.append({"name": download.suggested_filename, "file": Path(path).name})

    async def _rest(self, do: str, *, last: bool) -> None:
        """Wait a short time for whatever the step started to finish."""
        if do in ("wait", "screenshot", "download", "fill"):
            return
        await asyncio.sleep(_MOMENT_S)
        await self._tabs.tab_opened(_STEP_S)
        page = self._tabs.newest
        if page is None:
            return
        with suppress(Error):
            await page.wait_for_load_state("domcontentloaded", timeout=_STEP_S * 1000)
            if last:
                await page.wait_for_load_state("networkidle", timeout=_QUIET_S * 1000)


def _reason(error: Exception) -> str:
    """Return the reason of a failure in one line: Playwright's messages have many."""
    if isinstance(error, TimeoutError):
        return "it ran out of time"
    lines = [line.strip(" -") for line in str(error).splitlines() if line.strip()]
    first = lines[0] if lines else type(error).__name__
    if first.endswith("exceeded.") and len(lines) > 2:
        first = f"{first} ({lines[-1]})"
    return short(re.sub(r"^\w+\.\w+: ", "", first)).rstrip(".")
