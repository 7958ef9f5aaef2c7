from __future__ import annotations

import base64
import importlib.util
import json
import os

import pytest

from agentcli.errors import ToolError
from agentcli.events.actions import FileReadAction
from agentcli.events.observations import FileReadObservation
from agentcli.tools.read import TOOL

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_text_has_line_numbers(use, workspace):
    (workspace / "a.py").write_text("def f():\n\treturn 1\n")
    assert use(TOOL, path="a.py").output == "1\tdef f():\n2\t\treturn 1"


def test_a_range_and_how_much_there_is(use, workspace):
    (workspace / "a").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    assert use(TOOL, path="a", start=4, end=5).output == "4\tline 4\n5\tline 5\n[10 lines in all]"
    assert use(TOOL, path="a", start=9, end=99).output == "9\tline 9\n10\tline 10"


def test_long_files_are_read_in_parts(use, workspace):
    (workspace / "a").write_text("x\n" * 5321)
    result = use(TOOL, path="a")
    assert result.output.endswith("2000\tx\n[lines 1-2000 of 5321; read on with start=2001]")
    assert result.data["lines_shown"] == (1, 2000)
    assert result.data["lines_total"] == 5321
    result = use(TOOL, path="a", start=4001)
    assert result.output.endswith("5321\tx")


def test_the_limit_on_characters_ends_at_a_line(use, workspace):
    (workspace / "a").write_text(("x" * 999 + "\n") * 1000)
    output = use(TOOL, path="a").output
    assert 99_000 < len(output) < 100_100
    assert "of 1000; read on with start=" in output.splitlines()[-1]


def test_long_lines_are_cut_unless_read_alone(use, workspace):
    (workspace / "a").write_text("short\n" + "x" * 5000 + "\n")
    assert use(TOOL, path="a").output.endswith(
        "xx [+3000 characters, cut]\n[a line read alone (start = end) is not cut]"
    )
    assert len(use(TOOL, path="a", start=2, end=2).output) == 5002


def test_what_a_command_must_know_is_noted(use, workspace):
    (workspace / "a").write_bytes("b\r\nä\r\nc".encode("utf-16"))
    output = use(TOOL, path="a").output
    assert output.endswith("[CRLF line endings; utf-16-le with BOM; no newline at the end]")
    (workspace / "empty").touch()
    assert use(TOOL, path="empty").output == "[empty file]"


def test_only_newlines_end_lines(use, workspace):
    (workspace / "a").write_text("a\fb\u2028c\x85d\n", encoding="utf-8")
    assert use(TOOL, path="a").output == "1\ta\fb\u2028c\x85d"


@pytest.mark.parametrize(("start", "end"), [(0, None), (3, 2), (9, None)])
def test_ranges_that_are_none(use, workspace, start, end):
    (workspace / "a").write_text("1\n2\n3\n")
    with pytest.raises(ToolError) as caught:
        use(TOOL, path="a", start=start, end=end)
    assert caught.value.error_id == "bad_range"


def test_a_read_file_may_be_changed_afterwards(use, ctx, workspace):
    (workspace / "a").write_text("1\n")
    use(TOOL, path="a")
    ctx.files.check(workspace / "a")


def test_a_missing_file_brings_similar_names(use, workspace):
    (workspace / "src").mkdir()
    (workspace / "src/parser.py").touch()
    (workspace / "readme.md").touch()
    with pytest.raises(ToolError, match=r"no src/parsr\.py\. Similar: src/parser\.py"):
        use(TOOL, path="src/parsr.py")
    with pytest.raises(ToolError, match=r"no parser\.py\. Similar: src/parser\.py"):
        use(TOOL, path="parser.py")
    with pytest.raises(ToolError, match=r"lib/parser\.py: no lib in \.\. Similar: src/parser"):
        use(TOOL, path="lib/parser.py")
    with pytest.raises(ToolError, match=r"There is no readme\.md/x"):
        use(TOOL, path="readme.md/x")


def test_folders_are_listed(use, workspace):
    (workspace / "src").mkdir()
    (workspace / "a.txt").write_text("x" * 1234)
    (workspace / "link").symlink_to("a.txt")
    (workspace / os.fsdecode(b"caf\xe9")).touch()
    assert use(TOOL, path=".").output == (
        ".: 4 entries\na.txt  1.2 kB\n$'caf\\xe9'  0 bytes\nlink -> a.txt\nsrc/"
    )


def test_big_folders_are_listed_in_part(use, workspace):
    for number in range(510):
        (workspace / f"{number:03}").touch()
    lines = use(TOOL, path=".").output.splitlines()
    assert lines[0] == ".: 510 entries"
    assert lines[-1] == "[10 more; use glob or bash]"


def test_names_as_they_were_shown_are_understood(use, workspace):
    (workspace / os.fsdecode(b"caf\xe9.txt")).write_text("found\n")
    assert use(TOOL, path=r"$'caf\xe9.txt'").output == "1\tfound"


def test_images_are_seen(use, workspace):
    (workspace / "dot.png").write_bytes(PIXEL)
    result = use(TOOL, path="dot.png")
    assert result.output == "[png image, 70 bytes]"
    assert result.images == ("data:image/png;base64," + base64.b64encode(PIXEL).decode(),)


def test_binary_files_are_named_and_not_shown(use, workspace):
    (workspace / "a.zip").write_bytes(b"PK\3\4" + bytes(100))
    with pytest.raises(ToolError, match=r"a\.zip is binary \(application/zip, 104 bytes\)"):
        use(TOOL, path="a.zip")


def test_notebooks_are_shown_by_cells(use, workspace):
    notebook = {
        "cells": [
            {"cell_type": "markdown", "source": ["# Title\n", "text"]},
            {
                "cell_type": "code",
                "source": "1/0",
                "outputs": [
                    {"output_type": "stream", "text": ["out \ud800\n"]},
                    {"output_type": "display_data", "data": {"image/png": "AAAA"}},
                    {
                        "output_type": "error",
                        "traceback": ["\x1b[31mZeroDivisionError\x1b[0m", "x"],
                    },
                ],
            },
        ]
    }
    (workspace / "a.ipynb").write_text(json.dumps(notebook))
    lines = [line.split("\t")[-1] for line in use(TOOL, path="a.ipynb").output.splitlines()]
    assert lines == [
        "--- cell 1, markdown ---",
        "# Title",
        "text",
        "--- cell 2, code ---",
        "1/0",
        "--- output ---",
        "out \ufffd",
        "--- output, image/png ---",
        "",
        "--- output ---",
        "ZeroDivisionError",
        "x",
        "[a notebook's cells; edit works on its JSON text]",
    ]


def test_a_notebook_that_is_none_is_text(use, workspace):
    (workspace / "a.ipynb").write_text("[]\n")
    assert use(TOOL, path="a.ipynb").output == "1\t[]"


@pytest.mark.skipif(importlib.util.find_spec("pypdf") is not None, reason="pypdf is installed")
def test_a_pdf_without_pypdf_says_what_helps(use, workspace):
    (workspace / "a.pdf").write_bytes(b"%PDF-1.4\n")
    with pytest.raises(ToolError, match="pdftotext"):
        use(TOOL, path="a.pdf")


def test_the_text_of_a_pdf(use, workspace):
    pytest.importorskip("pypdf")
    stream = b"BT /F1 12 Tf 10 10 Td (Hello) Tj ET"
    (workspace / "a.pdf").write_bytes(
        b"%%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
        b"2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
        b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R"
        b"/Resources<</Font<</F1 5 0 R>>>>>>endobj\n"
        b"4 0 obj<</Length %d>>stream\n%s\nendstream endobj\n"
        b"5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\n"
        b"trailer<</Root 1 0 R>>\nstartxref\n0\n%%%%EOF" % (len(stream), stream)
    )
    assert "1\t--- page 1 of 1 ---\n2\tHello" in use(TOOL, path="a.pdf").output
    (workspace / "bad.pdf").write_bytes(b"%PDF-1.4\nnothing")
    with pytest.raises(ToolError, match="damaged PDF"):
        use(TOOL, path="bad.pdf")


def test_its_events(use, workspace):
    (workspace / "a").write_text("1\n2\n")
    arguments = TOOL.arguments.model_validate({"path": "a", "end": 1})
    assert TOOL.action(arguments, "") == FileReadAction(path="a", end=1)
    seen = TOOL.observation(use(TOOL, path="a", end=1))
    assert isinstance(seen, FileReadObservation)
    assert (seen.path, seen.lines_shown, seen.lines_total, len(seen.digest)) == ("a", (1, 1), 2, 64)


def test_lines_of_a_large_file(use, workspace):
    lines = [f"line {number}" + "x" * 20 for number in range(1, 1_200_001)]
    lines[2] = "é" + "y" * 30_000
    # Four bytes each: a line is cut by its characters, and as many bytes as they may take are read.
    lines[3] = "𝄞" * 2_000
    (workspace / "large.log").write_text("\n".join(lines) + "\n")
    result = use(TOOL, path="large.log", start=2, end=4)
    second, third, fourth, note = result.output.split("\n")
    assert second == f"2\t{lines[1]}"
    cut = "[+5999 characters, cut] [+22,002 bytes, cut]"
    assert third == f"3\té{'y' * 1_999} {cut}"
    assert fourth == f"4\t{lines[3]}"
    assert note == "[lines 2-4 of a file of 38.5 MB; read on with start=5, or look with grep]"
    assert result.data["lines_shown"] == (2, 4)
    assert use(TOOL, path="large.log", start=1_199_999).output == (
        f"1199999\t{lines[-2]}\n1200000\t{lines[-1]}\n[lines 1199999-1200000 of a file of 38.5 MB]"
    )
    assert len(use(TOOL, path="large.log").output) < 110_000
    with pytest.raises(ToolError, match="fewer than 1200001 lines"):
        use(TOOL, path="large.log", start=1_200_001)


def test_a_large_file_of_no_lines_or_no_text(use, workspace):
    (workspace / "line").write_bytes(b"z" * 20_000_000)
    (workspace / "binary").write_bytes(bytes(20_000_000))
    assert len(use(TOOL, path="line").output) < 3_000
    with pytest.raises(ToolError) as caught:
        use(TOOL, path="binary")
    assert caught.value.error_id == "file_too_large"
