"""What a task may meet beside text: each handled by the tool that is for it, in one real run."""

from __future__ import annotations

import base64
import json
import shutil

import pytest

from tests.conftest import PYTHON
from tests.pages import html, serving
from tests.server import Call, Reply
from tests.server.samples import PNG

PASSWORD = "python3 -c \"import getpass; print('got', getpass.getpass('Password: '))\""
NOTEBOOK = {
    "cells": [
        {"cell_type": "code", "source": ["1 + 1"], "outputs": [{"data": {"text/plain": ["2"]}}]}
    ]
}
PLOT = """
import base64, sys, types
class Figure:
    dpi = 100
    def get_size_inches(self): return (6, 4)
    def savefig(self, path, **options): open(path, "wb").write(base64.b64decode(%r))
plot = types.ModuleType("matplotlib.pyplot")
shown = [1]
plot.get_fignums = lambda: list(shown)
plot.figure = lambda number: Figure()
plot.close = lambda which: shown.clear()
sys.modules["matplotlib"] = types.ModuleType("matplotlib")
sys.modules["matplotlib.pyplot"] = plot
"""
SERVE = "python3 -m http.server 8123 --bind 127.0.0.1"
WAIT = "until curl -sf http://127.0.0.1:8123/words.txt; do sleep 0.05; done"
needs_vim = pytest.mark.skipif(shutil.which("vim") is None, reason="no vim")


def pdf() -> bytes:
    stream = b"BT /F1 12 Tf 10 10 Td (Hello) Tj ET"
    return (
        b"%%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
        b"2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
        b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R"
        b"/Resources<</Font<</F1 5 0 R>>>>>>endobj\n"
        b"4 0 obj<</Length %d>>stream\n%s\nendstream endobj\n"
        b"5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\n"
        b"trailer<</Root 1 0 R>>\nstartxref\n0\n%%%%EOF" % (len(stream), stream)
    )


def bash(command: str, **more: object) -> Call:
    return Call("bash", {"command": command, **more})


def typed(text: str) -> Call:
    return bash(text, is_input=True)


@pytest.fixture
def run(agent, serve):
    """Has the calls made, each in a reply of its own; what the model was told of each."""

    def start(*calls: Call, options: tuple[str, ...] = ()) -> list[str]:
        server = serve([*(Reply("", [call]) for call in calls), Reply("Done.")])
        agent.use(server).ok("run", *options, "x")
        start.sent = server.requests[-1].raw.decode()
        return server.results

    return start


def test_pages_and_files_that_are_no_text(agent, run):
    files = {
        "report.pdf": pdf(),
        "work.ipynb": json.dumps(NOTEBOOK).encode(),
        "logo.png": base64.b64decode(PNG),
    }
    for name, content in files.items():
        (agent.workspace / name).write_bytes(content)
    answers = {"/": html("<h1>Title</h1>")}
    with serving(answers) as pages:
        reads = [Call("read", {"path": name}) for name in files]
        plot = Call("python", {"code": PLOT % PNG})
        options = (*PYTHON, "--allow", pages.rule)
        told = run(Call("fetch", {"url": pages.url}), *reads, plot, options=options)
    page, report, notebook, logo, _ = told
    assert "# Title" in page
    assert "Hello" in report
    assert "1 + 1" in notebook
    assert "2" in notebook
    assert "png image" in logo
    assert run.sent.count(f"data:image/png;base64,{PNG[:40]}") == 2


@pytest.mark.campaign
@needs_vim
def test_programs_that_wait_or_go_on(agent, run):
    (agent.workspace / "words.txt").write_text("words\n" * 60)
    told = run(
        bash(SERVE, background=True),
        bash(WAIT),
        bash("stop", job="job-1"),
        bash(PASSWORD, is_input=True),
        typed("hunter2"),
        bash("python3 -i -q", is_input=True),
        typed("6 * 7"),
        typed("exit()"),
        bash("less words.txt"),
        bash("vim words.txt", timeout=2),
        bash("vim words.txt", is_input=True),
        typed(":q!"),
        bash("echo still here"),
    )
    job, words, stopped, asked, got, repl, answer, _, pager, editor, waiting, _, last = told
    assert "job job-1 runs" in job
    assert words.startswith("words")
    assert "has ended" in stopped
    assert asked.startswith("Password: ")
    assert "waits for input" in asked
    assert "got hunter2" in got
    assert "waits for input" in repl
    assert "42" in answer
    assert pager.count("words") == 60
    assert "stopped after 2 s" in editor
    assert "waits for input" in waiting
    assert last == "still here"
