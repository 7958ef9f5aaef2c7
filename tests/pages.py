"""Pages on loopback, with everything a server can do wrong."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.server.loopback import Answer, Incoming, Loopback


def html(body: str, title: str = "A page", **options: object) -> Answer:
    page = f"<!doctype html><html><head><title>{title}</title></head><body>{body}</body></html>"
    return Answer([page.encode()], content_type="text/html; charset=utf-8", **options)


@dataclass
class Pages:
    """Answers by path; what was asked for, in order."""

    answers: dict[str, Answer]
    asked: list[Incoming] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def rule(self) -> str:
        return f"network(127.0.0.1:{self.port})"

    def answer(self, asked: Incoming) -> Answer:
        self.asked.append(asked)
        return self.answers.get(asked.path) or html("<p>There is no such page.</p>", status=404)


@contextmanager
def serving(answers: Mapping[str, Answer]) -> Iterator[Pages]:
    pages = Pages(dict(answers))
    server = Loopback(pages.answer, traceback.format_exc)
    pages.port = server.server_port
    server.start()
    try:
        yield pages
    finally:
        server.stop()
