"""Opens the page of a session in a real Chromium."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from agentcli.browser.browser import BrowserMissing, find_browser
from agentcli.events import Event, LLMMetrics, ReplyPart, Source, ToolCallMetadata, event_to_dict
from agentcli.events.actions import (
    CmdRunAction,
    CondensationAction,
    FileEditAction,
    FileReadAction,
    MCPAction,
    MessageAction,
    SystemMessageAction,
    ToolCallAction,
)
from agentcli.events.observations import (
    CmdMetadata,
    CmdOutputObservation,
    ErrorObservation,
    FileEditObservation,
    FileReadObservation,
    MCPObservation,
    SessionStartedObservation,
)
from agentcli.sessions.export import Trajectory, exporter
from tests.page.long_session import long_session

try:
    CHROMIUM = find_browser("")
except BrowserMissing as missing:
    pytest.skip(f"{missing}: {missing.remedy}", allow_module_level=True)

HEADER = {
    "format_version": 1,
    "session_id": "20260101-000000-aaaa",
    "name": None,
    "title": "Find it",
    "workspace": "/work",
    "model": "house/large",
    "created_at": "2026-01-01T00:00:00+00:00",
    "updated_at": "2026-01-01T00:02:05+00:00",
    "state": "finished",
    "cost_usd": 0.25,
    "usage": {"prompt_tokens": 2000, "completion_tokens": 50, "cache_read_tokens": 1000},
}


def numbered(events: list[Event]) -> list[Event]:
    return [event.model_copy(update={"id": number}) for number, event in enumerate(events)]


def exported(events: list[Event], **header: object) -> str:
    told = (event_to_dict(event) for event in numbered(events))
    return "".join(exporter("html")(Trajectory({**HEADER, **header}, told)))


def first_of(step: int, event: Event, **metrics: object) -> Event:
    """Return the event as the only one of a reply."""
    told = LLMMetrics(model="house/large", **{"prompt_tokens": 1000 * step, **metrics})
    part = ReplyPart(id=f"r{step}", index=0, total=1)
    return event.model_copy(update={"reply": part, "llm_metrics": told})


def called(step: int, action: Event) -> Event:
    call = ToolCallMetadata(function_name="tool", tool_call_id=f"c{step}", raw_arguments="{}")
    return first_of(step, action.model_copy(update={"tool_call_metadata": call}))


@dataclass
class Opened:
    """A page in the browser, with the URLs it requested and its messages on the console."""

    page: object
    asked: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def run(self, script: str) -> object:
        return self.page.evaluate(script)

    def shown(self, selector: str) -> bool:
        return self.page.locator(selector).first.is_visible()


@pytest.fixture(scope="module")
def chromium() -> Iterator[object]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, chromium_sandbox=False)
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium, tmp_path):
    @contextmanager
    def opened(html: str, place: str = "", **options: object) -> Iterator[Opened]:
        file = tmp_path / "page.html"
        file.write_bytes(html.encode("utf-8", "replace"))
        page = chromium.new_page(**options)
        told = Opened(page)
        page.on("request", lambda request: told.asked.append(request.url))
        page.on("console", lambda message: told.said.append(message.text))
        page.on("pageerror", lambda error: told.said.append(str(error)))
        page.on("dialog", lambda dialog: told.said.append(dialog.message))
        page.goto(file.as_uri() + place)
        yield told
        page.close()
        assert [url for url in told.asked if not url.startswith("data:")] == [file.as_uri()]
        assert told.said == []

    return opened


HOSTILE = """</script><script>hit=1</script></pre></details></article><!-- <script>
<img src="http://127.0.0.1:1/x.png" onerror="hit=1"><svg onload=hit=1>
<base href="http://127.0.0.1:1/">
"><iframe src="http://127.0.0.1:1/"></iframe><style>*{display:none}</style>' onmouseover='hit=1
[click](javascript:hit=1) ![picture](http://127.0.0.1:1/x.png)
[data](data:text/html,<script>hit=1</script>)
<javascript:hit=1> [ref] `</code>` ${data} $title &lt;b&gt;&#60;b&#62;
```"><script>hit=1</script>
\u202e\u2066gnp.exe \x00\x07\x1b[31mred\x1b[0m\x9b2J \ud800 \ufeff

[ref]: javascript:hit=1
"""
IMAGE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA"
    "WjR9awAAAABJRU5ErkJggg=="
)


def hostile_events() -> list[Event]:
    """Return events in which every field that others can influence tries to do harm."""
    line = HOSTILE.replace("\n", " ")
    images = (
        IMAGE + '"onerror="hit=1',
        "javascript:hit=1",
        "data:image/svg+xml,<svg onload=hit=1>",
    )
    tools = ({"name": line, "description": line, "parameters": {}},)
    plan = CondensationAction(
        forgotten_event_ids=(5, 6), summary=HOSTILE, summary_offset=1, reason=line
    )
    return [
        SessionStartedObservation(
            **{"version": "1", "session_id": line, "model": line, "sandbox": line},
            **{"workspace": line, "pid": 1, "host": line},
        ),
        SystemMessageAction(content=HOSTILE, tools=tools, source=Source.ENVIRONMENT),
        MessageAction(content=HOSTILE, source=Source.USER, image_urls=images),
        first_of(1, MessageAction(content=HOSTILE, reasoning=HOSTILE)),
        called(2, CmdRunAction(command=HOSTILE, reason=HOSTILE)),
        CmdOutputObservation(
            content=HOSTILE + "x" * 1_000_000, cause=4, metadata=CmdMetadata(exit_code=1)
        ),
        called(3, FileEditAction(path=line, old_str=HOSTILE, new_str=HOSTILE)),
        FileEditObservation(path=line, cause=6, diff=f"@@ -1 +1 @@\n-{line}\n+{line}\n"),
        called(4, ToolCallAction(name=line, raw_arguments=json.dumps({line: HOSTILE}))),
        ErrorObservation(error_id=line, content=HOSTILE, cause=8),
        called(5, MCPAction(server=line, name=line, arguments={line: HOSTILE})),
        MCPObservation(server=line, name=line, content=HOSTILE, image_urls=images, cause=10),
        plan,
        first_of(6, MessageAction(content=HOSTILE * 40)),
    ]


def test_a_hostile_session_is_shown_and_does_nothing(opened):
    hostile = {"title": HOSTILE, "name": HOSTILE, "workspace": HOSTILE, "model": HOSTILE}
    html = exported(hostile_events(), **hostile)
    assert len(html) < 500_000
    assert "data:image/svg" not in re.sub(r"<p class=.cut.>[^<]*</p>", "", html)
    with opened(html) as it:
        it.run("document.querySelectorAll('details').forEach(fold => fold.open = true)")
        over = "each => each.dispatchEvent(new Event('mouseover'))"
        it.run(f"document.querySelectorAll('.e *').forEach({over})")
        assert it.run("typeof hit") == "undefined"
        elements = "script:not([id]), iframe, base, .e style, .e svg, .e img, .e [onerror]"
        assert it.run(f"document.querySelectorAll('{elements}').length") == 1
        links = "[...document.querySelectorAll('main a')].map(a => a.protocol)"
        assert set(it.run(links)) <= {"file:", "http:"}
        text = it.run("document.querySelector('header').textContent + timeline.textContent")
        assert text.count('<img src="http://127.0.0.1:1/x.png" onerror=') >= 10
        assert "<U+202E>" in text
        assert not re.search("[\x00-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
        assert "characters not on this page: agent sessions show" in text


def story() -> list[Event]:
    """Return seven steps; the first three are condensed before the last."""
    events: list[Event] = [
        MessageAction(
            content="Where is the needle?",
            source=Source.USER,
            image_urls=(IMAGE, "https://a/b.png"),
        ),
    ]
    for step in range(1, 7):
        shown = "\n".join(f"hay {step} {number}" for number in range(50))
        events += [
            called(step, FileReadAction(path=f"stack{step}.txt")),
            FileReadObservation(path=f"stack{step}.txt", content=shown, cause=len(events)),
        ]
    events[6] = events[6].model_copy(update={"content": f"{events[6].content}\nA *Needle*.\n"})
    events.append(
        CondensationAction(
            source=Source.ENVIRONMENT,
            forgotten_start_id=1,
            forgotten_end_id=6,
            summary="Three stacks were looked through.",
            summary_offset=1,
        )
    )
    return [*events, first_of(7, MessageAction(content="It is in **stack3.txt**."))]


def test_what_is_looked_for_is_unfolded_and_what_is_not_is_out_of_the_way(opened):
    with opened(exported(story())) as it:
        page = it.page
        assert it.run("[...document.querySelectorAll('img')].map(i => i.naturalWidth)") == [1]
        assert not it.shown("#event-6 pre")
        page.keyboard.press("/")
        page.keyboard.type("a *needle")
        page.keyboard.press("Enter")
        assert it.shown("#event-6 pre")
        assert page.locator("#found").inner_text() == "1 of 1"
        assert it.run("[...CSS.highlights.get('found-now')].map(String)") == ["A *Needle"]
        page.locator("label", has_text="Only matches").click()
        assert page.locator("article:visible").count() == 1
        page.keyboard.press("Escape")
        page.locator("label", has_text="Only matches").click(force=True)
        page.locator("label", has_text="Reads").click()
        assert not it.shown("#event-5")
        assert it.shown("#event-14 strong")
        it.run("location.hash = '#event-8'")
        page.locator("#event-8").wait_for(state="visible")
        assert it.run("document.activeElement.id") == "event-7"
        page.keyboard.press("j")
        assert it.run("document.activeElement.id") == "event-9"
        page.keyboard.press("Enter")
        assert it.shown("#event-10 pre")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("tool stack3.txt", "toolstack3.txt"),
        ("hay 3 0 HAY 3 1", "hay 3 0\nhay 3 1"),
        ("4hay 2", ""),
    ],
)
def test_words_are_found_as_they_look(opened, query, found):
    """Also where a line ends between them, or a name is set apart; not where they only adjoin in
    the page's text."""
    with opened(exported(story())) as it:
        it.page.fill("#query", query)
        it.page.keyboard.press("Enter")
        assert it.page.locator("#found").inner_text() == ("1 of 1" if found else "0")
        marked = it.run("[...CSS.highlights.get('found-now')].map(String)")
        assert marked == ([found] if found else [])


def test_a_step_tells_what_was_in_the_window_and_what_had_gone(opened):
    phone = {"viewport": {"width": 360, "height": 640}, "color_scheme": "dark"}
    with opened(exported(story()), "#event-14", **phone) as it:
        page = it.page
        assert not it.shown("#window")
        page.locator("#step-7 button").click()
        told = page.locator("#window").inner_text().replace("\N{EN DASH}", "-")
        assert "7,000 tokens" in told
        assert "It carried 8 events\n#0 #7-13" in told
        assert "6 events taken out by #13\n#1-6" in told
        page.locator("text=Show it on the timeline").click()
        carried = it.run("[...document.querySelectorAll('.e.in')].map(e => e.id)")
        assert carried == [f"event-{number}" for number in (0, 7, 9, 11, 13)]
        page.keyboard.press("Escape")
        assert not it.shown("#window")
        assert it.run("document.documentElement.scrollWidth") == 360
        assert it.run("getComputedStyle(document.body).backgroundColor") == "rgb(19, 21, 25)"
        page.locator("#theme").click()
        assert it.run("getComputedStyle(document.body).backgroundColor") == "rgb(250, 250, 248)"


@pytest.mark.campaign
@pytest.mark.cases(1)
@pytest.mark.parametrize("lines", [300, 3_000])
def test_a_session_of_3000_events_is_no_burden(opened, lines):
    """Whether its outputs are 25 MB or 200 MB long."""
    html = "".join(exporter("html")(long_session(3_000, lines)))
    assert html.count("<article") > 1_500
    assert len(html.encode()) < 5_000_000
    with opened(html, "#event-2900") as it:
        assert it.shown("#event-2900")
        it.page.fill("#query", "cursor.pending")
        it.page.keyboard.press("Enter")
        found = it.page.locator("#found").inner_text()
        assert re.fullmatch(r"1 of [\d,]{3,}", found)
        times = it.run(
            "(({domContentLoadedEventEnd: loaded}) => ({loaded, "
            "painted: performance.getEntriesByName('first-contentful-paint')[0]?.startTime}))"
            "(performance.getEntriesByType('navigation')[0])"
        )
        print(f"{len(html.encode()):,} bytes, {times}")


def test_it_can_be_read_without_javascript(opened):
    with opened(exported(story()), java_script_enabled=False) as it:
        assert it.page.locator("noscript").inner_text().startswith("Without JavaScript")
        it.page.locator("#event-5 summary").click()
        assert it.shown("#event-6 pre")
        assert not it.shown("#query")
        assert it.shown("svg[aria-label='Tokens read by each of 7 steps, 7k at most']")
