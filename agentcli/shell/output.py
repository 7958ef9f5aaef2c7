"""Turns terminal output into text for the model: finds it between marks, cleans it, and keeps its
head and tail if it is long."""

from __future__ import annotations

import codecs
import math
import os
import re
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agentcli.messages import SLACK_CHARS, lines_after, lines_before
from agentcli.workspace.names import output_name
from agentcli.workspace.private import DISK_BYTES, OutputFolder

KEEP_BYTES = 262_144
HEAD_SHARE = 0.5
SOURCE_HEAD_SHARE = 0.75
"""The share of the head in what a cut leaves."""
_MOST_PIECE = 20_000
"""Bytes of what is left out that one command shows."""
_LONGEST_CHARACTER = 4
_SILENT_INTERVAL_S = 0.1
_LIVE_INTERVAL_S = 0.06
LIVE_BYTES = 8_192
"""Most bytes passed on between two calls."""
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_CONTINUATIONS = bytes(range(0x80, 0xC0))
"""The bytes that continue a UTF-8 character."""

_ESCAPES = re.compile(
    r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|\x1b[ -/]*[0-~]?"
)
_UNFINISHED_ESCAPE = re.compile(
    r"\x1b(?:[\]PX^_][^\x07\x1b\x9c\n]{0,4096}\x1b?|\[[0-?]{0,64}[ -/]{0,8}|[ -/]{0,8})\Z"
)
_SURROGATES = re.compile("[\ud800-\udfff]")
_INVISIBLE = {code: None for code in range(0x7F, 0xA0)} | {7: None, 13: None}
_VISIBLE = {code: chr(0x2400 + code) for code in range(32) if code not in (7, 9, 10, 13)}
_CONTROLS = _VISIBLE | _INVISIBLE


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which can't be encoded, with U+FFFD."""
    return _SURROGATES.sub("\ufffd", text)


def clean(data: bytes) -> str:
    """Return readable text with as many newlines as `data` has.

    Undecodable bytes become U+FFFD, escape sequences are removed, a line overwritten with \\r keeps
    its last state, backspaces delete, and other control characters become visible pictures.
    """
    text = _ESCAPES.sub("", data.decode("utf-8", "replace"))
    if "\r" in text or "\b" in text:
        text = "\n".join(_settle(line) for line in text.split("\n"))
    return text.translate(_CONTROLS)


def _settle(line: str) -> str:
    if "\r" in line:
        line = line.rstrip("\r").rpartition("\r")[2]
    if "\b" not in line:
        return line
    kept: list[str] = []
    for character in line:
        if character != "\b":
            kept.append(character)
        elif kept:
            kept.pop()
    return "".join(kept)


class MarkedSection:
    """Extracts what is between two marks from a stream that arrives in pieces."""

    def __init__(self, begin: bytes, end: bytes, *, before: bytes = b"") -> None:
        self._begin = begin
        self._end = end
        self._held = b""
        self._before = bytearray(before)
        self.begun = False
        self.ended = False
        self.after = b""
        """What followed the second mark."""

    def take_before(self) -> bytes:
        """Return, once, what came before the first mark; the newest 256 kB of it."""
        before = bytes(self._before)
        self._before.clear()
        return before

    def feed(self, data: bytes) -> bytes:
        """Return the part of `data` that lies between the marks.

        If the second mark comes without the first, everything before it counts as between.
        """
        data = self._held + data
        self._held = b""
        inside = b""
        if not self.begun:
            data = self._find_begin(data)
        if self.begun and not self.ended:
            found, mark, rest = data.partition(self._end)
            if mark:
                self.ended = True
                inside, data = found, rest
            else:
                inside, data = self._hold_back(data), b""
        if self.ended:
            self.after += data
        return inside

    def release(self) -> bytes:
        """Return what was held back because it might have been the start of a mark."""
        held, self._held = self._held, b""
        return held if self.begun and not self.ended else b""

    def _find_begin(self, data: bytes) -> bytes:
        """Return what follows the first mark; everything if only the second one is there."""
        found, mark, rest = data.partition(self._begin)
        if mark:
            self.begun = True
            self._add_before(found)
            return rest
        if self._end in data:
            self.begun = True
            # bash has ended the line of its last report, which was a fallback.
            return (self.take_before() + data).removeprefix(b"\n")
        self._add_before(self._hold_back(data))
        return b""

    def _add_before(self, data: bytes) -> None:
        self._before += data
        del self._before[:-KEEP_BYTES]

    def _hold_back(self, data: bytes) -> bytes:
        """Return `data` without an end that could be the start of a mark."""
        start = data.find(b"\x1e", max(0, len(data) - len(self._end) + 1))
        while start >= 0:
            if self._end.startswith(data[start:]) or self._begin.startswith(data[start:]):
                self._held = data[start:]
                return data[:start]
            start = data.find(b"\x1e", start + 1)
        return data


class LiveOutput:
    """Passes output on as it arrives: in order, decoded, about sixteen times a second. During
    silence it calls with an empty text every 0.1 s, so that a display can show that time passes.

    If more than 8 kB arrive between two calls, only the end is passed on and the rest is not
    processed: a display shows only a few lines, so more work would be wasted.
    """

    def __init__(self, callback: Callable[[str], None] | None) -> None:
        self._callback = callback
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = bytearray()
        self._skipped = 0
        self._rest = ""
        self._last_call = 0.0
        self._last_sign = time.monotonic()

    def feed(self, data: bytes) -> None:
        if self._callback is None or not data:
            return
        newest = data[-LIVE_BYTES:]
        self._pending += newest
        over = max(0, len(self._pending) - LIVE_BYTES)
        del self._pending[:over]
        self._skipped += over + len(data) - len(newest)

    def due_in(self, now: float) -> float | None:
        """Return the seconds until `flush` should be called; None if nobody listens."""
        if self._callback is None:
            return None
        if not self._pending:
            return max(0.0, self._last_sign + _SILENT_INTERVAL_S - now)
        return max(0.0, self._last_call + _LIVE_INTERVAL_S - now)

    def flush(self) -> None:
        if self._callback is None:
            return
        self._last_sign = time.monotonic()
        if not self._pending:
            self._callback("")
            return
        text = self._take()
        self._last_call = time.monotonic()
        # Later output may complete an escape sequence. The last character of one may look like the
        # beginning of another.
        last = text.rfind("\x1b")
        starts = (text.rfind("\x1b", 0, last), last) if text.endswith("\x1b") else (last,)
        unfinished = (at for at in starts if at >= 0 and _UNFINISHED_ESCAPE.match(text, at))
        cut = next(unfinished, len(text))
        text, self._rest = text[:cut], text[cut:]
        if text := _ESCAPES.sub("", text):
            self._callback(text)

    def _take(self) -> str:
        """Return what has come since the last call, with a line about what is left out."""
        data = bytes(self._pending)
        skipped, self._skipped = self._skipped, 0
        self._pending.clear()
        if not skipped:
            return self._rest + self._decoder.decode(data)
        self._decoder.reset()
        # The first character may be incomplete.
        text = self._decoder.decode(data.lstrip(_CONTINUATIONS) or data)
        return f"\n[… {skipped:,} bytes …]\n{text}"


@dataclass(frozen=True)
class RenderedOutput:
    text: str
    truncated: bool
    path: str | None


class Capture:
    """Keeps the first and last `keep` bytes in memory and, if there is more, the first 50 MB on
    disk, or as much as `folder` has room for.

    Without `spool`, `path` already exists and holds everything.
    """

    def __init__(
        self,
        path: Path,
        *,
        keep: int = KEEP_BYTES,
        spool: bool = True,
        folder: OutputFolder | None = None,
        head_share: float = HEAD_SHARE,
    ) -> None:
        self._path = path
        self._folder = folder
        self._head_share = head_share
        self._keep = max(keep, KEEP_BYTES)
        self._spools = spool
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._total = 0
        self._newlines = 0
        self._unended = False
        self._file: int | None = None
        self._is_log = False
        self._written = 0
        self.problem: str | None = None
        """Why the full output could not be kept, if that is so."""

    def feed(self, data: bytes) -> None:
        if self._is_log:
            self._spool(data)
            return
        if not data:
            return
        self._total += len(data)
        self._newlines += data.count(b"\n")
        self._unended = data[-1:] != b"\n"
        room = self._keep - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        if self._file is None:
            self._spool(bytes(self._head))
        self._spool(data)
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size - len(self._tail[0]) >= self._keep:
            self._tail_size -= len(self._tail.popleft())

    def stream_to_file(self) -> Path:
        """Write everything so far and from now on directly to the file, and keep none in memory.
        Raises OSError if the file can't be created."""
        if self._file is None:
            self._file = os.open(self._path, _NEW_FILE, 0o600)
            self._spool(bytes(self._head) + b"".join(self._tail))
        self._head.clear()
        self._tail.clear()
        self._is_log = True
        return self._path

    def end(self) -> str:
        """Return the last few hundred characters."""
        return clean(self._tail[-1] if self._tail else bytes(self._head[-1000:]))[-300:]

    def render(self, max_chars: int, rewrite: Callable[[str], str] = str) -> RenderedOutput:
        """Return the text, cut in the middle at line boundaries if it exceeds `max_chars` by more
        than a little."""
        tail = b"".join(self._tail)
        gap = self._total - len(self._head) - len(tail)
        if gap:
            first, last = bytes(self._head), tail
        else:
            first = last = bytes(self._head) + tail
            text = rewrite(clean(first))
            if len(text) <= max_chars + min(SLACK_CHARS, max_chars // 10):
                self._discard()
                return RenderedOutput(text, truncated=False, path=None)
        if self._file is None:
            self._spool(bytes(self._head) + tail)
        self.close()
        head = math.ceil(max_chars * self._head_share)
        start = first[: _head_bytes(first, head)]
        end = last[len(last) - _tail_bytes(last, max_chars - head) :]
        follows = first[len(start) : len(start) + max_chars]
        missing = self._missing(start, end, max_chars, in_lines=b"\n" in follows)
        text = f"{rewrite(clean(start))}{missing}{rewrite(clean(end))}"
        return RenderedOutput(text, truncated=True, path=str(self._path))

    def _missing(self, start: bytes, end: bytes, max_chars: int, *, in_lines: bool) -> str:
        """Return the line that stands for what is left out. `in_lines`: the first line of that is
        no longer than a result may be, so that it can be read by its number."""
        size = self._total - len(start) - len(end)
        first = start.count(b"\n") + 1
        last = self._newlines - end.count(b"\n")
        path = output_name(self._path)
        if self.problem:
            where = f"the full output could not be kept: {self.problem}"
        elif not (in_lines and start.endswith(b"\n") and last >= first):
            most = min(_MOST_PIECE, max_chars, size)
            where = f'see it: tail -c +{len(start) + 1} "{path}" | head -c {most}'
        else:
            where = f"the whole: {path}; grep it, or read from line {first}"
        if self._spools and self._written < self._total and not self.problem:
            where += f" (the file holds the first {self._written:,} bytes)"
        lines = f"lines {first}-{last}" if last > first else f"part of line {first}"
        count = self._newlines + self._unended
        opening = "" if start.endswith(b"\n") or not start else "\n"
        return f"{opening}[… {lines} of {count:,} not shown, {size:,} bytes; {where} …]\n"

    def _spool(self, data: bytes) -> None:
        data = data[: DISK_BYTES - self._written]
        if self.problem or not data or not self._spools:
            return
        if self._folder is not None:
            data = data[: self._folder.take(len(data))]
            if not data:
                self.problem = None if self._written else self._folder.full
                return
        try:
            if self._file is None:
                self._file = os.open(self._path, _NEW_FILE, 0o600)
            while data:
                count = os.write(self._file, data)
                self._written += count
                data = data[count:]
        except OSError as error:
            self.problem = str(error)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _discard(self) -> None:
        if self._file is not None:
            self.close()
            self._path.unlink()
            if self._folder is not None:
                self._folder.give_back(self._written)


def _head_bytes(raw: bytes, chars: int) -> int:
    """Return how many bytes from the start of `raw` to show, as at most `chars` characters. Text
    and bytes have the same lines; within one the bytes are cut, so that what is told of the rest is
    true whatever `clean` removes or replaces."""
    lines, newline, part = lines_before(clean(raw), chars).rpartition("\n")
    begin = len(raw) - len(raw.split(b"\n", lines.count("\n") + 1)[-1]) if newline else 0
    if not part:
        return begin
    count = _most_bytes(lambda n: raw[begin : begin + n], len(raw) - begin, len(part))
    return _boundary(raw, begin + count)


def _tail_bytes(raw: bytes, chars: int) -> int:
    """Return how many bytes from the end of `raw` to show; as `_head_bytes`."""
    text = clean(raw)
    shown = lines_after(text, chars)
    if text.removesuffix(shown).endswith("\n"):
        return len(b"\n".join(raw.rsplit(b"\n", shown.count("\n") + 1)[1:]))
    count = _most_bytes(lambda n: raw[len(raw) - n :], len(raw), chars)
    return len(raw) - _boundary(raw, len(raw) - count)


def _most_bytes(piece: Callable[[int], bytes], most: int, chars: int) -> int:
    """Return for how many bytes, about as many as possible, `piece` has at most `chars`
    characters."""
    low, high = min(chars, most), most
    while low < high:
        middle = (low + high + 1) // 2
        if len(clean(piece(middle))) <= chars:
            low = middle
        else:
            high = middle - 1
    return low


def _boundary(raw: bytes, at: int) -> int:
    """Return the last place up to `at` that is within no character or escape sequence."""
    back = range(at, max(at - _LONGEST_CHARACTER, 0), -1)
    at = next((i for i in back if i == len(raw) or raw[i] not in _CONTINUATIONS), at)
    escape = raw.rfind(b"\x1b", 0, at)
    text = raw[escape:at].decode("utf-8", "replace")
    return escape if escape > 0 and _UNFINISHED_ESCAPE.match(text) else at


def kept_text(
    text: str,
    outputs: OutputFolder,
    name: str,
    most_chars: int,
    *,
    head_share: float = HEAD_SHARE,
) -> RenderedOutput:
    """Return `text`; if it is long, only head and tail, with the whole in a new file of `outputs`,
    named as by `OutputFolder.new_path`."""
    capture = Capture(
        outputs.new_path(name), keep=4 * most_chars, folder=outputs, head_share=head_share
    )
    capture.feed(text.encode(errors="replace"))
    return capture.render(most_chars)
