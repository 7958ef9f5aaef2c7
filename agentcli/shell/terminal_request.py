"""One request to a process on a terminal: from its first output to its report and end mark."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from enum import Enum

from agentcli import interrupts
from agentcli.shell.output import Capture, LiveOutput, MarkedSection
from agentcli.shell.terminal import Terminal
from agentcli.system import processes
from agentcli.system.processes import ProcessHandle

MARK = "\x1e"
_END_MARK_PATIENCE_S = 1.0
_FIRST_POLL_S = 0.3
_SECOND_POLL_S = 0.15
_LONGEST_POLL_S = 5.0
_SLICE_S = 0.15
_FIRST_PATIENCE_S = 1.0
_LADDER = (
    (signal.SIGINT, 0.5),
    (signal.SIGTERM, 1.2),
    (signal.SIGKILL, 0.8),
)
_MOST_REPORTED = 4 << 20
"""Bytes kept of the report pipe, to which commands can write without end, too."""
_LONGEST_REPORT = 65_536
_SILENT = LiveOutput(None)
FALLBACK = "F"
"""Letter of a report made when none of the shell's builtins was usable. It marks the end of the
output only, not of what was written to the terminal."""
DROP_REST: signal.Signals | None = getattr(signal, "SIGRTMAX", None)
"""Makes our bash drop the rest of its script once the foreground command has ended."""


class Outcome(Enum):
    DONE = "done"
    DIED = "died"
    """The process behind the terminal has ended."""
    TIMEOUT = "timeout"
    WAITING = "waiting"
    """Something waits for input from the keyboard."""
    LOST = "lost"
    """The process waits for our next line without having reported: it was replaced by another."""
    WOKEN = "woken"
    """Someone asked for attention; the request continues."""


Watch = Callable[[float], Outcome | None]
"""Checks the processes when nothing has arrived for the given number of seconds."""


class TerminalRequest:
    """Output is between "␞B<nonce>␞" and "␞E<nonce>␞", in the output pipe and on the terminal; a
    report is "␞<letter><nonce>:…␞".

    A listing may come ahead of the report, after "␞X<nonce>␞". Commands can write reports, too: one
    whose text `is_report` rejects is ignored.
    """

    def __init__(
        self,
        terminal: Terminal,
        nonce: str,
        capture: Capture,
        *,
        is_report: Callable[[str], bool],
        before: tuple[bytes, bytes] = (b"", b""),
        ask_again: bytes = b"",
        ask_end: bytes = b"",
    ) -> None:
        """`before` is what followed the previous request in each stream. `ask_again` are lines
        that request the report once more, as an interrupt can lose it; `ask_end` are lines that
        request the end mark after a fallback report. Empty ones are not sent."""
        self.terminal = terminal
        self.nonce = nonce
        self.capture = capture
        self.report: tuple[str, str] | None = None
        """(letter, text) once the request has ended."""
        self.listing: bytes | None = None
        self._ask_again = ask_again
        self._ask_end = ask_end
        begin, end = (f"{MARK}{letter}{nonce}{MARK}".encode() for letter in "BE")
        self._streams = tuple(MarkedSection(begin, end, before=late) for late in before)
        self.started_ticks = processes.ticks_now()
        self._reports = _Reports(nonce, is_report)
        self._last_activity = time.monotonic()

    @property
    def finished(self) -> bool:
        if self.report is None:
            return False
        patience = self._last_activity + _END_MARK_PATIENCE_S
        output, on_terminal = self._streams
        marked = output.ended and (on_terminal.ended or self.report[0] == FALLBACK)
        return marked or time.monotonic() > patience

    @property
    def begun(self) -> bool:
        """Whether the beginning of its output has been found."""
        return any(stream.begun for stream in self._streams)

    def take_before(self) -> bytes:
        """Return, once, what came before its output; only the newest part if there was much."""
        return b"".join(stream.take_before() for stream in self._streams)

    @property
    def after(self) -> tuple[bytes, bytes]:
        """What immediately followed its output in each stream."""
        output, on_terminal = self._streams
        return output.after, on_terminal.after

    def wait(
        self,
        seconds: float,
        *,
        live: LiveOutput = _SILENT,
        watch: Watch | None = None,
        wakeable: bool = False,
    ) -> Outcome:
        """Follow the request until it ends, for at most `seconds`, or if `wakeable` until the
        terminal is woken."""
        deadline = time.monotonic() + seconds
        polls = _PollSchedule(watch)
        while not self.finished:
            interrupts.check()
            now = time.monotonic()
            if self.terminal.ended:
                self._read_rest(live)
                break
            if live.due_in(now) == 0.0:
                live.flush()
            if now >= deadline:
                live.flush()
                return Outcome.TIMEOUT
            if wakeable and self.terminal.woken and self.report is None:
                self.terminal.woken = False
                live.flush()
                return Outcome.WOKEN
            if self.report:
                polls = _PollSchedule(None)
            elif (seen := polls.poll(now, self._last_activity)) is not None:
                live.flush()
                return seen
            patience = self._last_activity + _END_MARK_PATIENCE_S - now
            mark_due = max(0.0, patience) + 0.001 if self.report else None
            due = (live.due_in(now), polls.due_in(now), mark_due)
            waits = (deadline - now, *due, interrupts.longest_wait_s())
            had_report = self.report is not None
            self._take(*self.terminal.pump(min(w for w in waits if w is not None)), live)
            if self.report and not had_report and self.report[0] == FALLBACK and self._ask_end:
                self.terminal.send_line(self._ask_end)
        live.flush()
        for stream in self._streams:
            self.capture.feed(stream.release())
        if self.report and self.report[0] == FALLBACK:
            # A fallback report can't mark the terminal's part.
            self.capture.feed(self._streams[1].take_before())
        return Outcome.DONE if self.report else Outcome.DIED

    def ask_again(self) -> None:
        if self._ask_again:
            self.terminal.send_line(self._ask_again)

    def _take(self, output: bytes, on_terminal: bytes, reports: bytes, live: LiveOutput) -> None:
        if output or on_terminal or reports:
            self._last_activity = time.monotonic()
        for stream, data in zip(self._streams, (output, on_terminal), strict=True):
            inside = stream.feed(data)
            self.capture.feed(inside)
            live.feed(inside)
        if reports and self.report is None:
            self.report = self._reports.feed(reports)
            self.listing = self._reports.listing

    def _read_rest(self, live: LiveOutput) -> None:
        self._take(*self.terminal.pump(0), live)
        for output, on_terminal in self.terminal.drain_after_exit():
            self._take(output, on_terminal, b"", live)


class _Reports:
    """Finds the report of one request, and the listing ahead of it, in the data from the pipe.

    The work for each piece is proportional to its length, whatever commands write there.
    """

    def __init__(self, nonce: str, is_report: Callable[[str], bool]) -> None:
        self._head = f"{nonce}:".encode()
        self._listing_mark = f"{MARK}X{nonce}{MARK}".encode()
        self._is_report = is_report
        self._data = bytearray()
        self._searched = 0
        self.listing: bytes | None = None

    def feed(self, piece: bytes) -> tuple[str, str] | None:
        """Return (letter, text) once the report is complete."""
        self._data += piece
        found = self._find()
        if len(self._data) > _MOST_REPORTED:
            gone = len(self._data) - _MOST_REPORTED // 2
            del self._data[:gone]
            self._searched = max(0, self._searched - gone)
        return found

    def _find(self) -> tuple[str, str] | None:
        data = self._data
        while (at := data.find(self._head, self._searched)) >= 0:
            start = at + len(self._head)
            end = data.find(MARK.encode(), start, start + _LONGEST_REPORT)
            if end < 0 and len(data) < start + _LONGEST_REPORT:
                self._searched = at
                return None
            self._searched = start
            opening = data[max(0, at - 2) : at].decode("latin-1")
            text = data[start : max(end, start)].decode("utf-8", "replace")
            if opening[:1] == MARK and opening[1:].isupper() and self._is_report(text):
                # If an interrupt cut off a first listing, another follows it.
                _, listed, listing = data[: at - 2].rpartition(self._listing_mark)
                self.listing = bytes(listing) if listed else None
                return opening[1:], text
        self._searched = max(self._searched, len(data) - len(self._head) + 1)
        return None


class _PollSchedule:
    """Decides when to check the processes: soon after output stops, then less and less often."""

    def __init__(self, watch: Watch | None) -> None:
        self._watch = watch
        self._since = 0.0
        self._delay = _FIRST_POLL_S
        self._next = 0.0
        self._seen: Outcome | None = None

    def due_in(self, now: float) -> float | None:
        return None if self._watch is None else max(0.0, self._next - now)

    def poll(self, now: float, last_activity: float) -> Outcome | None:
        """Return an outcome only if seen twice in a row: a process may be between two calls."""
        if self._watch is None:
            return None
        if last_activity != self._since:
            self._since, self._delay, self._seen = last_activity, _FIRST_POLL_S, None
            self._next = last_activity + self._delay
        if now < self._next:
            return None
        found = self._watch(now - last_activity)
        if found is not None and found is self._seen:
            return found
        self._seen = found
        self._delay = _SECOND_POLL_S if found else min(2 * self._delay, _LONGEST_POLL_S)
        self._next = now + self._delay
        return None


def stop(request: TerminalRequest, leader: ProcessHandle | None) -> Outcome:
    """Stop what runs: ^C, INT, TERM, KILL to the foreground group, then the process itself.

    Programs that only read the output of others are spared at first: when those end, the readers
    print what they have.

    Takes at most 4.5 s. `leader` is the process that answers our lines, if it is known.
    """
    terminal = request.terminal
    terminal.interrupt_key()
    for number, (signum, patience) in enumerate(((signal.SIGINT, _FIRST_PATIENCE_S), *_LADDER)):
        if number or not _spare_readers(terminal, leader):
            _apply(terminal, signum, leader)
        request.ask_again()
        outcome = _insist(request, signum, patience, leader)
        if outcome is not Outcome.TIMEOUT:
            return outcome
    terminal.kill()
    return request.wait(1.0)


def _insist(
    request: TerminalRequest, signum: signal.Signals, patience: float, leader: ProcessHandle | None
) -> Outcome:
    """Wait, repeating the signal when a script continues with its next command."""
    deadline = time.monotonic() + patience
    group = request.terminal.foreground()
    while (left := deadline - time.monotonic()) > 0:
        outcome = request.wait(min(_SLICE_S, left))
        if outcome is not Outcome.TIMEOUT:
            return outcome
        now_in_front = request.terminal.foreground()
        if now_in_front != group and not _is_group_of(leader, now_in_front):
            group = now_in_front
            _apply(request.terminal, signum, leader)
    return Outcome.TIMEOUT


def _spare_readers(terminal: Terminal, leader: ProcessHandle | None) -> bool:
    """Interrupt everything except the readers at the end of pipes. Return False if there is nothing
    else, or if the leader would continue its script after the readers ended by themselves."""
    if leader is None or DROP_REST is None or _is_group_of(leader, terminal.foreground()):
        return False
    members = terminal.foreground_processes()
    readers = processes.pipe_readers(members)
    if not readers or readers.issuperset(members):
        return False
    if not processes.has_handler(leader.pid, DROP_REST):
        return False
    leader.send(DROP_REST)
    processes.send((each for each in members if each not in readers), signal.SIGINT)
    return True


def _apply(terminal: Terminal, signum: signal.Signals, leader: ProcessHandle | None) -> None:
    leads = _is_group_of(leader, terminal.foreground())
    if leader is not None and not leads:
        # The leader drops the rest of its script only if it is interrupted, too.
        leader.send(signal.SIGINT)
    if not (leads and signum is signal.SIGKILL):
        terminal.signal_foreground(signum)


def _is_group_of(leader: ProcessHandle | None, group: int | None) -> bool:
    return leader is not None and leader.pid == group
