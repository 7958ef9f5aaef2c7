"""Cleaning, cutting and marking of output, without a shell."""

from __future__ import annotations

import itertools
import os
import re
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentcli.shell.output import (
    KEEP_BYTES,
    LIVE_BYTES,
    Capture,
    LiveOutput,
    MarkedSection,
    RenderedOutput,
    clean,
)
from agentcli.workspace.private import OutputFolder


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


def cut(data: bytes, size: int) -> tuple[bytes, MarkedSection]:
    between = MarkedSection(b"\x1eBn\x1e", b"\x1eEn\x1e")
    inside = b"".join(between.feed(data[i : i + size]) for i in range(0, len(data), size))
    return inside + between.release(), between


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_marks_are_found_however_the_stream_is_cut(size: int) -> None:
    inside, between = cut(b"$ \x1e\x1eBn\x1ea\x1eE\x1e\x1eEx\x1e b\x1e\x1eEn\x1e$ ", size)
    assert inside == b"a\x1eE\x1e\x1eEx\x1e b\x1e"
    assert (between.ended, between.take_before(), between.after) == (True, b"$ \x1e", b"$ ")


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_missing_marks(size: int) -> None:
    assert cut(b"all\x1eEn\x1erest", size)[0] == b"all"
    assert cut(b"x\x1eBn\x1eto the end\x1eE", size)[0] == b"to the end\x1eE"
    assert cut(b"nothing", size)[1].take_before() == b"nothing"


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
    assert f"the whole: $AGENT_OUT/full; grep it, or read from line {first}" in gap
    assert 4000 < len(head) + len(tail) <= 5000
    assert (tmp_path / "full").read_bytes() == data


def test_nothing_is_cut_for_little(tmp_path: Path) -> None:
    for size, cut in ((32_900, False), (33_100, True)):
        capture = Capture(tmp_path / f"full{size}")
        capture.feed(b"x" * 99 + b"\n" * (size // 100) + b"x" * (size - 99 - size // 100))
        assert capture.render(30_000).truncated is cut


def test_the_head_is_longer_where_source_is_printed(tmp_path: Path) -> None:
    capture = Capture(tmp_path / "full", head_share=0.75)
    capture.feed(b"".join(b"line %d\n" % n for n in range(10_000)))
    head, _, tail = capture.render(10_000).text.partition("[…")
    assert 7_400 < len(head) <= 7_500
    assert len(tail) < 2_700


def test_one_long_line_is_cut_inside(tmp_path: Path) -> None:
    capture = Capture(tmp_path / "full")
    capture.feed(b"x" * 3 * KEEP_BYTES)
    text = capture.render(1000).text
    assert text.startswith("x" * 500 + "\n[… part of line 1 of 1 not shown, ")
    assert 'tail -c +501 "$AGENT_OUT/full"' in text
    assert text.endswith(" …]\n" + "x" * 500)


PARTS = st.one_of(
    st.text(max_size=30).map(str.encode),
    st.binary(max_size=30),
    st.sampled_from([b"\n", b"\x1b[31mred\x1b[m", "日本語".encode() * 40, b"\xff\xe9" * 50]),
    st.tuples(st.sampled_from([b"x", b"\xe9", "é".encode(), b"word "]), st.integers(1, 900)).map(
        lambda each: each[0] * each[1]
    ),
)


@given(st.lists(PARTS, min_size=4, max_size=60), st.sampled_from([200, 1000]))
@example([b"x" * 55, b"\n", b"\n", b"x" * 164], 200)
def test_what_is_shown_and_what_the_hint_reaches_are_the_whole(
    parts: list[bytes], max_chars: int
) -> None:
    """The text names the place of what is missing; between the shown ends there is just that."""
    # A line of its own is overwritten by \r, and \b deletes across a cut: they are tried above.
    data = re.sub(rb"[\r\b]|\x1b(?!\[31m|\[m)|\xc2[\x80-\x9f]|[\x80-\x9f]{4}", b"", b"".join(parts))
    with TemporaryDirectory() as folder:
        capture = Capture(Path(folder) / "full")
        capture.feed(data)
        rendered = capture.render(max_chars)
    if not rendered.truncated:
        assert rendered.text == clean(data)
        return
    text, whole = rendered.text, clean(data)
    gap = re.search(r"\n?\[… (?:lines|part of line) (\d+)[^…]* (\d[\d,]*) bytes; (.*) …\]\n", text)
    assert gap is not None
    head, tail = text[: gap.start()], text[gap.end() :]
    size = int(gap[2].replace(",", ""))
    if hint := re.search(r'tail -c \+(\d+) "\$AGENT_OUT/full" \| head -c (\d+)', gap[3]):
        begin = int(hint[1]) - 1
        assert 0 < int(hint[2]) == min(20_000, max_chars, size)
    else:
        begin = sum(len(line) + 1 for line in data.split(b"\n")[: int(gap[1]) - 1])
    if data[:begin].endswith(b"\n") and gap[0].startswith("\n"):
        head += "\n"
    assert clean(data[:begin]) == head
    assert clean(data[begin + size :]) == tail
    assert head + clean(data[begin : begin + size]) + tail == whole
    assert len(head) + len(tail) <= max_chars + 1


@pytest.mark.parametrize(
    "data", [b"\xd6\xd0" * 40_000, b"\x1b[32mok\x1b[m " * 20_000, "日本".encode() * 30_000]
)
def test_the_hint_is_in_bytes_of_the_file(tmp_path: Path, data: bytes) -> None:
    capture = Capture(tmp_path / "full")
    capture.feed(data)
    head, _, rest = capture.render(30_000).text.partition("\n[… ")
    skipped = int(re.search(r"tail -c \+(\d+)", rest)[1]) - 1
    assert clean(data[:skipped]) == head
    assert 14_990 < len(head) <= 15_000
    assert "| head -c 20000 …]" in rest


def test_a_long_line_between_short_ones_is_shown_at_both_ends(tmp_path: Path) -> None:
    capture = Capture(tmp_path / "full")
    capture.feed(b"first\n" + b"x" * 160_000 + b"\nlast\n")
    text = capture.render(30_000).text
    assert text.startswith("first\nxxx")
    assert text.endswith("xxx\nlast\n")
    assert 'tail -c +15001 "$AGENT_OUT/full" | head -c 20000' in text


def test_full_output_that_cannot_be_kept_is_said(tmp_path: Path) -> None:
    capture = Capture(tmp_path / "missing" / "full")
    capture.feed(b"x\n" * KEEP_BYTES)
    assert "could not be kept: " in capture.render(1000).text


def test_a_folder_that_is_full_keeps_what_it_has_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "earlier").write_bytes(b"x" * 100_000)
    folder = OutputFolder(tmp_path, 900_000)
    data = b"line\n" * 200_000

    def render(name: str) -> RenderedOutput:
        capture = Capture(tmp_path / name, folder=folder)
        for start in range(0, len(data), 60_000):
            capture.feed(data[start : start + 60_000])
        return capture.render(1000)

    first, second = render("first"), render("second")
    assert "(the file holds the first 800,000 bytes)" in first.text
    assert (tmp_path / "first").read_bytes() == data[:800_000]
    assert "could not be kept: this session has reached its limit of 900,000 bytes" in second.text
    assert not (tmp_path / "second").exists()
    assert (tmp_path / "earlier").stat().st_size == 100_000


def test_room_comes_back_with_what_needed_no_file_and_logs_take_it(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path, 1_000_000)
    capture = Capture(tmp_path / "progress", folder=folder)
    capture.feed(b"\r100%" * 100_000)
    assert folder.room < 1_000_000
    assert not capture.render(1000).truncated
    assert folder.room == 1_000_000
    log = tmp_path / "log"
    log.touch()
    folder.add_log(log)
    log.write_bytes(b"x" * 300_000)
    assert folder.room == 700_000
    os.truncate(log, 1 << 40)
    assert folder.room == 0
    assert OutputFolder(tmp_path, 1_000).room == 0


def test_live_output_comes_in_order_and_not_too_often() -> None:
    pieces: list[str] = []
    live = LiveOutput(pieces.append)
    for byte in "aé\x1b[31mred".encode():
        live.feed(bytes([byte]))
    assert pieces == []
    assert live.due_in(time.monotonic()) == 0.0
    live.flush()
    assert pieces == ["aéred"]
    live.feed(b"more \xc3")
    assert 0.0 < (live.due_in(time.monotonic()) or 0.0) <= 0.06
    live.flush()
    live.feed(b"\xa9 \x1b[3")
    live.flush()
    live.feed(b"1mend")
    live.flush()
    assert "".join(pieces) == "aéredmore é end"


PIECES = st.sampled_from(
    [
        *("a", "é", "日", "\n", "\r", " ", "[", "\\", "\x07", "\x1b[31m", "\x1b[?25l"),
        *("\x1b]0;t\x07", "\x1b]8;;x\x1b\\", "\x1b(B", "\x1b7", "\x1bP1$r\x1b\\"),
    ]
)


@given(st.lists(PIECES), st.lists(st.integers(1, 7), min_size=1))
def test_live_output_is_the_same_however_it_comes(parts: list[str], sizes: list[int]) -> None:
    data = ("".join(parts) + "end").encode()
    pieces: list[str] = []
    live = LiveOutput(pieces.append)
    at = 0
    for size in itertools.cycle(sizes):
        live.feed(data[at : at + size])
        live.flush()
        at += size
        if at >= len(data):
            break
    assert "".join(pieces) == clean_of_escapes(data)


def clean_of_escapes(data: bytes) -> str:
    pieces: list[str] = []
    live = LiveOutput(pieces.append)
    live.feed(data)
    live.flush()
    return "".join(pieces)


@pytest.mark.parametrize("size", [1, 100, 4096, 262_144, 5_000_000])
@pytest.mark.parametrize("filler", [b"x", b"\xc3\xa9", b"\x1b]", b"\x1b[1", b"line\n", b"\x80"])
def test_of_much_output_no_more_is_worked_on_than_is_shown(size: int, filler: bytes) -> None:
    """The newest of it, whole characters, with a line for the rest."""
    pieces: list[str] = []
    live = LiveOutput(pieces.append)
    data = filler * (size // len(filler) + 1)
    for _ in range(-(-50_000 // len(data))):
        live.feed(data)
    live.feed("\né the end".encode())
    assert len(live._pending) <= LIVE_BYTES
    live.flush()
    assert re.match(r"\n\[… [\d,]+ bytes …\]\n", pieces[0])
    assert pieces[0].endswith("\né the end")
    assert len(pieces[0]) < 2 * LIVE_BYTES + 100
    assert filler == b"\x80" or "\ufffd" not in pieces[0]
    live.feed(b"after")
    live.flush()
    assert pieces[1] == "after"


def test_an_escape_without_end_is_not_kept_for_ever() -> None:
    live = LiveOutput(lambda text: None)
    for start in (b"\x1b[", b"\x1b]", b"\x1b", b"\x1bP"):
        live.feed(start)
        for _ in range(100):
            live.feed(b"0 " * 3000)
            live.flush()
            assert len(live._rest) < 10_000
