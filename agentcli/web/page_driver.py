"""Turn a page into readable text. This is a program of its own, run by readable.py, as a malicious
page may try to use up all memory and time.
"""

from __future__ import annotations

import html
import importlib
import io
import json
import re
import resource
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin

_CPU_S = 8
_MEMORY = 1_500_000_000
_BOMS = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    *((b"\xff\xfe\0\0", "utf-32"), (b"\0\0\xfe\xff", "utf-32")),
    *((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")),
)
_META = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{2,40})""", re.IGNORECASE)
_XML = re.compile(rb"""^\s*<\?xml[^>]{0,100}?encoding\s*=\s*["']([\w.:-]{2,40})""")
_AS_BROWSERS = {"iso-8859-1": "windows-1252", "ascii": "windows-1252", "us-ascii": "windows-1252"}
"""The charset that browsers use for pages that declare these, by
https://encoding.spec.whatwg.org/#names-and-labels"""
_HEAD_BYTES = 4_096
_GUESSED_BYTES = 65_536

_NO_TEXT = "script, style, template, noscript, svg, iframe, object, canvas, head, link, meta"
_AROUND = (
    "nav, footer, dialog, button, select, input, textarea, [role=navigation], [role=search], "
    "[role=banner], [role=contentinfo], [role=dialog], [hidden], [aria-hidden=true], "
    "a.headerlink, a.anchor, a.hash-link, td.linenos, .lineno"
)
_INVISIBLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_MAIN = ("main", "[role=main]", "article", "body")
_LANGUAGE = re.compile(r"^(?:language|lang|highlight-source|highlight|brush:?)-?(\w[\w+#-]*)$")
_NO_LANGUAGES = frozenset(("default", "none", "text", "plaintext", "notranslate"))
_LEAST_OF_MAIN = 0.2
"""Least share of a page's text that its main part must have."""


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    wanted = json.loads(sys.stdin.buffer.readline())
    sys.path[:] = wanted["path"]
    data = sys.stdin.buffer.read()
    answer: dict[str, Any] = {"text": "", "title": "", "charset": ""}
    try:
        if wanted["form"] == "pdf":
            answer["text"] = pdf_text(data)
        else:
            text, answer["charset"] = decoded(data, wanted["charset"])
            if wanted["form"] == "html":
                answer["title"], answer["text"] = markdown(text, wanted["url"])
            else:
                answer["text"] = bare_text(text) if wanted["form"] == "bare" else text
    except ImportError as error:
        answer["missing"] = error.name
    answer["text"] = answer["text"][: wanted["most"]]
    sys.stdout.buffer.write(json.dumps(answer).encode())


def decoded(data: bytes, declared: str) -> tuple[str, str]:
    """Return the text and its charset, which is the one of a byte order mark, of the server, of the
    page itself, or else a guess, in this order."""
    for mark, charset in _BOMS:
        if data.startswith(mark):
            return data.decode(charset, "replace"), charset
    head = data[:_HEAD_BYTES]
    own = _META.search(head) or _XML.search(head)
    for name in (declared, own[1].decode() if own else ""):
        try:
            charset = _AS_BROWSERS.get(name.lower(), name)
            return data.decode(charset, "replace"), charset
        except (LookupError, ValueError):
            continue
    try:
        return data.decode(), "utf-8"
    except UnicodeDecodeError as error:
        if error.start > len(data) - 4 and len(data) > _HEAD_BYTES:
            # The page was cut in the middle of a character.
            return data.decode(errors="replace"), "utf-8"
    from charset_normalizer import from_bytes

    found = from_bytes(data[:_GUESSED_BYTES]).best()
    charset = found.encoding if found else "windows-1252"
    return data.decode(charset, "replace"), charset


# --- HTML ---------------------------------------------------------------------------------------


def markdown(text: str, url: str) -> tuple[str, str]:
    """Return a page's title, and its main part as Markdown, without navigation and the like."""
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    soup = BeautifulSoup(text, "html.parser")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    base = soup.find("base", href=True)
    if base is not None:
        url = urljoin(url, str(base["href"]))
    for tag in soup.select(f"{_NO_TEXT}, {_AROUND}"):
        tag.decompose()
    for tag in soup.find_all(style=_INVISIBLE):
        tag.decompose()
    main = _main_part(soup)
    _repair(main, url)
    made: str = MarkdownConverter(
        heading_style="atx",
        bullets="-",
        code_language_callback=_language,
        escape_asterisks=False,
        escape_underscores=False,
    ).convert_soup(main)
    return title, re.sub(r"\n{3,}", "\n\n", made.replace("\xa0", " ")).strip()


def _main_part(soup: Any) -> Any:
    least = _LEAST_OF_MAIN * len(soup.get_text(strip=True))
    for selector in _MAIN:
        found = max(soup.select(selector), key=lambda tag: len(tag.get_text()), default=None)
        if found is not None and len(found.get_text(strip=True)) > least:
            return found
    return soup


def _repair(main: Any, url: str) -> None:
    """Make links absolute, so that they can be fetched; remove images that only a browser can show;
    extract code from tables with line numbers."""
    for table in main.select("table:has(pre)"):
        if len(table.find_all("tr")) == 1:
            table.replace_with(*(block.extract() for block in table.find_all("pre")))
    for link in main.select("a[href]"):
        target = str(link["href"]).strip()
        if not link.get_text(strip=True) and not link.img:
            link.decompose()
        elif not target.startswith("#"):
            whole = _joined(url, target)
            if whole:
                link["href"] = whole
            else:
                link.unwrap()
        if link.attrs:
            link.attrs.pop("title", None)
    for image in main.select("img"):
        whole = _joined(url, str(image.get("src", "")))
        if whole and image.get("alt"):
            image["src"] = whole
        else:
            image.decompose()


def _joined(url: str, target: str) -> str:
    """Return the absolute URL of `target`, or "" if no page can be fetched from it."""
    try:
        whole = urljoin(url, target)
    except ValueError:
        return ""
    return whole if whole.startswith(("http://", "https://")) else ""


def _language(block: Any) -> str:
    """Return the language of a code block, from the CSS classes of the tags around it."""
    code = block.find("code")
    for tag in filter(None, (code, block, block.parent, block.parent and block.parent.parent)):
        for name in tag.get("class") or ():
            found = _LANGUAGE.match(name)
            if found and found[1] not in _NO_LANGUAGES:
                return found[1]
    return ""


_GONE = re.compile(r"</?(script|style|template|noscript|svg|head)\b", re.IGNORECASE)


def bare_text(page: str) -> str:
    """Return the text between the tags, in linear time."""
    lines = (line.strip() for line in html.unescape("".join(_pieces(page))).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _pieces(page: str) -> Iterator[str]:
    at, left_out = 0, ""
    while at < len(page):
        begin = page.find("<", at)
        end = page.find(">", begin) if begin >= 0 else -1
        if not left_out:
            yield page[at : begin if end >= 0 else len(page)]
        if end < 0:
            return
        if found := _GONE.match(page, begin):
            name, closes = found[1].lower(), page.startswith("</", begin)
            if not left_out and not closes:
                left_out = name
            elif closes and left_out == name:
                left_out = ""
        yield "\n"
        at = end + 1


# --- PDF ----------------------------------------------------------------------------------------


def pdf_text(data: bytes) -> str:
    pages = importlib.import_module("pypdf").PdfReader(io.BytesIO(data)).pages
    return "\n".join(
        f"--- page {number} of {len(pages)} ---\n{page.extract_text()}"
        for number, page in enumerate(pages, 1)
    )


if __name__ == "__main__":
    main()
