"""Turn a fetched page into text for the model. A separate program (page_driver.py) reads it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agentcli.errors import ToolError
from agentcli.web.page import Page

_DRIVER = Path(__file__).with_name("page_driver.py")
_PATIENCE_S = 20.0
"""Seconds to wait for the driver, which usually ends earlier by its own limit on CPU time."""
_MOST_CHARS = 10_000_000
_HTML = ("text/html", "application/xhtml+xml")
_TEXTS = ("json", "xml", "javascript", "yaml", "toml", "x-sh", "x-ndjson", "graphql", "sql")
_BINARY_SAMPLE = 4_096

Form = Literal["html", "text", "pdf", "image", "binary"]
_DriverForm = Literal["html", "text", "pdf", "bare"]


@dataclass(frozen=True)
class Readable:
    """The text of a page. `note` says what was lost from it."""

    text: str
    title: str = ""
    charset: str = ""
    note: str = ""


def form_of(page: Page) -> Form:
    """Return the form of a page, by its first bytes if they are unmistakable, else by the content
    type that the server sent."""
    data, kind = page.data, page.content_type
    if data.startswith(b"%PDF-"):
        return "pdf"
    if kind in _HTML or (not kind and data[:500].lstrip().lower().startswith((b"<!doc", b"<html"))):
        return "html"
    if kind.startswith("text/") or any(name in kind for name in _TEXTS):
        return "text"
    if kind.startswith("image/"):
        return "image"
    if kind.startswith(("audio/", "video/", "font/")) or b"\0" in data[:_BINARY_SAMPLE]:
        return "binary"
    try:
        data[:_BINARY_SAMPLE].decode()
    except UnicodeDecodeError as error:
        return "binary" if error.start < len(data[:_BINARY_SAMPLE]) - 4 else "text"
    return "text"


def readable(page: Page, form: Literal["html", "text", "pdf"]) -> Readable:
    """Return HTML as Markdown, and everything else as text. Raises ToolError; an interrupt ends the
    driver."""
    found = _driven(page, form)
    if found is not None:
        return found
    if form == "html" and (bare := _driven(page, "bare")) is not None:
        told = "its form took too much time or memory to keep: its bare text"
        return Readable(bare.text, charset=bare.charset, note=told)
    raise ToolError(f"{page.url} can't be made readable.", error_id="unreadable_page")


def _driven(page: Page, form: _DriverForm) -> Readable | None:
    """Run the driver on the page; None if it failed, which can only be due to the page."""
    wanted = {
        "form": form,
        "url": page.url,
        "charset": page.charset,
        "path": sys.path,
        "most": _MOST_CHARS,
    }
    request = json.dumps(wanted).encode() + b"\n" + page.data
    try:
        # The driver gets almost none of the environment, so that a page can't get at API keys.
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(_DRIVER)],
            input=request,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={k: v for k, v in os.environ.items() if k == "LD_LIBRARY_PATH"},
            timeout=_PATIENCE_S,
            start_new_session=True,
        )
        answer = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        return None
    if missing := answer.get("missing"):
        raise _missing(page, missing)
    return Readable(answer["text"], answer["title"], answer["charset"])


def _missing(page: Page, module: str) -> ToolError:
    if module == "pypdf":
        told = f"{page.url} is a PDF. Get its text with bash: pdftotext -layout FILE -"
        return ToolError(f"{told} (poppler-utils).", error_id="unsupported_file")
    return ToolError(f"{module}, which reads pages, is not installed.", error_id="tool_failed")
