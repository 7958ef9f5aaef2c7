"""Pages on loopback, as a project serves them, and as somebody does who means harm."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SIGN_UP = """<!doctype html><title>Sign up</title><h1>Sign up</h1>
<form action="/done"><label>Name <input name="name"></label>
<label>Plan <select name="plan"><option>Free</option><option>Pro</option></select></label>
<label><input type="checkbox" name="agreed"> I agree</label><button>Send</button></form>
<a href="/report.csv" download>Report</a> <a href="/done" target="_blank">Elsewhere</a>
<div style="width:200px;height:200px;background:#c00"></div>"""
DONE = """<!doctype html><title>Done</title><p id="said">Thank you.</p>
<script>said.textContent += ' You sent ' + location.search.slice(1)</script>"""
REPORT = "name,plan\nAda,Pro\n"


@dataclass
class Pages:
    """`texts`: by path; `hits`: the paths that were asked for, each told to `on_hit` at once."""

    port: int
    texts: dict[str, str] = field(default_factory=dict)
    hits: list[str] = field(default_factory=list)
    on_hit: Callable[[str], None] = lambda path: None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"


@contextmanager
def served(texts: Mapping[str, str]) -> Iterator[Pages]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            pages.hits.append(self.path)
            pages.on_hit(self.path)
            text = pages.texts.get(self.path.partition("?")[0].lstrip("/"))
            if text is not None and text.startswith("http"):
                self.send_response(302)
                self.send_header("location", text)
            else:
                self.send_response(404 if text is None else 200)
            kind = "text/csv" if self.path.endswith(".csv") else "text/html"
            body = (text or "").encode()
            self.send_header("content-type", f"{kind}; charset=utf-8")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *arguments: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    pages = Pages(server.server_address[1], dict(texts))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield pages
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
