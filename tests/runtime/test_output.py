"""Cleaning, cutting and marking of output, without a shell."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from agentcli.runtime.output import KEEP_BYTES, Between, Capture, Live, clean


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain \xc3\xa9\t\n", "plain é\t\n"),
        (b"\x1b[1;31mred\x1b[m \x1b]8;;http://x\x1b\\link\x1b]8;;\x07", "red link"),
        (b"\x1b]52;c;aGk=\x07\x1bP+q\x1b\\\x1b(B\x1b7\x1b=ok", "ok"),
        (b"\xc2\x9b31mc1\xc2\x9d0;t\x07", "c1"),
        (b"  0%\r 50%\r100%\ndone\r\n", "100%\ndone\n"),
        (b"50%\r", "50%"),
        (b"b\bbo\bol\bld _\bu", "bold u"),
        (b"\b\bx", "x"),
        (b"\x00\x01\x1f\x7f\a", "␀␁␟"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"unfinished \x1b[31", "unfinished "),
        (b"open \x1b]0;title\nnext", "open \nnext"),
    ],
)
def test_clean(data: bytes, text: str) -> None:
    assert clean(data) == text
    assert text.count("\n") == data.count(b"\n")


def test_hostile_escapes_cost_linear_time() -> None:
    for piece in (b"\x1b]", b"\x1b[", b"\x1b", b"\b", b"\r", b"\x1bP\x1b", b"\x9b"):
        assert len(clean(piece * 200_000)) < 400_000


def cut(data: bytes, size: int) -> tuple[bytes, Between]:
    between = Between(b"\x1eBn\x1e", b"\x1eEn\x1e")
    inside = b"".join(between.feed(data[i : i + size]) for i in range(0, len(data), size))
    return inside + between.release(), between


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_marks_are_found_however_the_stream_is_cut(size: int) -> None:
    inside, between = cut(b"$ \x1e\x1eBn\x1ea\x1eE\x1e\x1eEx\x1e b\x1e\x1eEn\x1e$ ", size)
    assert inside == b"a\x1eE\x1e\x1eEx\x1e b\x1e"
    assert (between.ended, between.before, between.after) == (True, b"$ \x1e", b"$ ")


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_missing_marks(size: int) -> None:
    assert cut(b"all\x1eEn\x1erest", size)[0] == b"all"
    assert cut(b"x\x1eBn\x1eto the end\x1eE", size)[0] == b"to the end\x1eE"
    assert cut(b"nothing", size)[1].before == b"nothing"


def test_capture_keeps_short_output_in_memory(tmp_path: Path) -> None:
    capture = Capture(tmp_path / "full")
    capture.feed(b"a\n")
    capture.feed(b"b")
    assert capture.render(100).text == "a\nb"
    assert not (tmp_path / "full").exists()


def test_progress_that_cleans_to_little_is_not_cut(tmp_path: Path) -> None:
    capture = Capture(tmp_path / "full")
    for percent in range(101):
        capture.feed(b"\r%3d%%" % percent + b" " * 4000)
    rendered = capture.render(10_000)
    assert rendered.text.strip() == "100%"
    assert not rendered.truncated
    assert not (tmp_path / "full").exists()


@pytest.mark.parametrize("lines", [2_000, 200_000])
def test_cut_names_exactly_the_missing_lines(tmp_path: Path, lines: int) -> None:
    data = b"".join(b"line %d\n" % n for n in range(1, lines + 1))
    capture = Capture(tmp_path / "full")
    for start in range(0, len(data), 4095):
        capture.feed(data[start : start + 4095])
    rendered = capture.render(5000)
    head, _, rest = rendered.text.partition("[… ")
    gap, _, tail = rest.partition(" …]\n")
    first, last = head.count("\n") + 1, lines - tail.count("\n")
    assert head.endswith(f"line {first - 1}\n")
    assert tail.startswith(f"line {last + 1}\n")
    assert gap.startswith(f"lines {first}-{last} of {lines:,} not shown, ")
    assert f"all of it is in {tmp_path / 'full'}: grep it, or read it from line {first}" in gap
    assert 4000 < len(head) + len(tail) <= 5000
    assert (tmp_path / "full").read_bytes() == data


def test_one_long_line_is_cut_inside(tmp_path: Path) -> None:
    capture = Capture(tmp_path / "full")
    capture.feed(b"x" * 3 * KEEP_BYTES)
    text = capture.render(1000).text
    assert text.startswith("x" * 500 + "\n[… part of line 1 of 1 not shown, ")
    assert f"tail -c +501 {tmp_path / 'full'}" in text
    assert text.endswith(" …]\n" + "x" * 500)


def test_full_output_that_cannot_be_kept_is_said(tmp_path: Path) -> None:
    capture = Capture(tmp_path / "missing" / "full")
    capture.feed(b"x\n" * KEEP_BYTES)
    assert "could not be kept: " in capture.render(1000).text


def test_live_output_comes_in_order_and_not_too_often() -> None:
    pieces: list[str] = []
    live = Live(pieces.append)
    for byte in "aé\x1b[31mred".encode():
        live.feed(bytes([byte]))
    assert pieces == []
    assert live.due_in(time.monotonic()) == 0.0
    live.flush()
    assert pieces == ["aéred"]
    live.feed(b"more \xc3")
    assert (live.due_in(time.monotonic()) or 0.0) <= 0.02
    live.flush()
    live.feed(b"\xa9 \x1b[3")
    live.flush()
    live.feed(b"1mend")
    live.flush()
    assert "".join(pieces) == "aéredmore é end"


def test_live_output_leaves_out_what_nobody_could_read() -> None:
    pieces: list[str] = []
    live = Live(pieces.append)
    for _ in range(100):
        live.feed(b"x" * 4096)
    live.flush()
    assert "bytes …]" in pieces[0]
    assert len(pieces[0]) < 70_000
