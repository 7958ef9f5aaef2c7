"""The prompt of a conversation: the input line, live rows above it and a status line below.

It runs on a thread of its own, so that it reacts to keys while the main thread works. Anything
printed in the meantime goes above it and stays (PromptRegion). It never uses the alternate screen.
"""

from __future__ import annotations

import asyncio
import os
import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import Context, copy_context
from pathlib import Path
from threading import Event, Thread

from prompt_toolkit.application import create_app_session, run_in_terminal
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition, has_focus, is_done
from prompt_toolkit.history import History
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.widgets import SearchToolbar

from agentcli.ui.prompt.control import Control, Prompt
from agentcli.ui.prompt.input_line import Chips, InputLine
from agentcli.ui.prompt.keys import Keyboard, bindings
from agentcli.ui.prompt.output import (
    DrawnCursor,
    ParkingRenderer,
    PromptApplication,
    PromptOutput,
    PromptRegion,
    reflows,
)
from agentcli.ui.text import Line, Span, cells, printable

_WORKING_TICK_S = 0.1
_IDLE_TICK_S = 1.0
_ESCAPE_S = 0.05
"""How long to wait after Esc: sequences of other keys begin with it too, and arrive at once."""
_MOST_QUEUED_ROWS = 3
_MOST_COMPLETIONS = 6
_LONGEST_END_S = 2.0
_MARK = "> "
_MODES_OFF = "\x1b[?2004l\x1b[?25h\x1b[0m"
"""Bracketed paste off, cursor shown, plain text style."""


class ConversationPrompt(Prompt):
    """A prompt on a thread of its own: `start` it, draw above it through `region`, and `close` it.
    What the user wants is passed to `control`."""

    shows_what_is_typed = False

    def __init__(
        self,
        control: Control,
        history: History,
        chips: Chips,
        *,
        find_image: Callable[[], Path | None],
        on_failure: Callable[[BaseException], None],
        tell_fault: Callable[[Exception], str],
    ) -> None:
        self.region = PromptRegion(sys.stderr, self._wake)
        self._on_failure = on_failure
        self._tell_fault = tell_fault
        self._control = control
        self._line = InputLine(control, history, chips, find_image, self._call)
        self._facts: object = None
        """The queued rows and status rows shown at the last tick."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context: Context | None = None
        self._ready = Event()
        self._drawing = False
        self._closing = False
        self._thread = Thread(target=self._run, name="prompt", daemon=True)
        self._mode: list[object] | None = None
        self._output = PromptOutput()
        self._faults: set[str] = set()
        """Errors that were reported already."""
        self._application = self._make_application()

    # --- for the main thread

    def start(self) -> None:
        with suppress(termios.error):
            self._mode = termios.tcgetattr(0)
        self._thread.start()
        self._ready.wait()

    def close(self) -> None:
        self._closing = True
        self._call(self._end)
        self._thread.join(_LONGEST_END_S)
        self.restore_terminal()

    def restore_terminal(self) -> None:
        application, leave = self._application, _MODES_OFF
        if application.is_drawn:
            up = application.renderer._cursor_pos.y
            leave = "\r" + (f"\x1b[{up}A" if up else "") + "\x1b[J" + leave
        with suppress(OSError):
            os.write(sys.stderr.fileno(), leave.encode())
        if self._mode is not None:
            with suppress(termios.error):
                termios.tcsetattr(0, termios.TCSADRAIN, self._mode)  # type: ignore[arg-type]

    @contextmanager
    def suspended(self) -> Iterator[None]:
        entered, done = Event(), Event()

        def give_way() -> None:
            entered.set()
            done.wait()

        def begin() -> None:
            self._draw()
            self._lend(give_way)

        self._call(begin)
        while not entered.wait(0.5) and self._thread.is_alive():
            pass
        try:
            yield
        finally:
            done.set()

    def give_way_to(self, act: Callable[[], object]) -> None:
        self._call(lambda: self._lend(act))

    def _lend(self, act: Callable[[], object]) -> None:
        """Lend the terminal to `act`, on a thread of its own; drawing waits until it is done."""
        done = asyncio.ensure_future(run_in_terminal(act, in_executor=True))
        done.add_done_callback(lambda done: self._wake())

    def use_vi_keys(self) -> None:
        self._call(lambda: setattr(self._application, "editing_mode", EditingMode.VI))

    def complete_again(self) -> None:
        self._call(self._line.look_for_completions)
        self._call(self._application.invalidate)

    def put(self, text: str) -> None:
        self._call(lambda: self._line.put(text))

    def say(self, text: str) -> None:
        self._line.hint = text

    def send_sequence(self, sequence: str) -> bool:
        def write() -> None:
            self._output.write_raw(sequence)
            self._output.flush()

        self._call(write)
        return True

    # --- on the prompt's thread

    def _run(self) -> None:
        try:
            with create_app_session(input=self._application.input, output=self._output):
                self._application.run(
                    pre_run=self._begin, handle_sigint=False, set_exception_handler=False
                )
                self._output.write_raw(self.region.take_above().replace("\n", "\r\n"))
                self._output.flush()
        except EOFError:
            self._control.leave()
        except BaseException as error:
            # Any failure of the prompt must reach the main thread, which waits for input.
            self.restore_terminal()
            self._on_failure(error)
        finally:
            self._ready.set()

    def _begin(self) -> None:
        self._context = copy_context()
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(lambda loop, fault: self._failed(fault.get("exception")))
        self._loop.call_soon(self._ready.set)
        self._loop.call_soon(self._tick)

    def _end(self) -> None:
        if self._application.is_running and not self._application.is_done:
            self._application.exit()

    def _failed(self, error: BaseException | None) -> None:
        """Handle an error on this thread. If the terminal is gone, the prompt ends; any other error
        is a bug of ours, so it is reported and the prompt goes on."""
        if isinstance(error, OSError | termios.error):
            if self._application.is_running and not self._application.is_done:
                self._application.exit(exception=error)
        elif isinstance(error, Exception) and repr(error) not in self._faults:
            self._faults.add(repr(error))
            self.say(self._tell_fault(error))

    def _tick(self) -> None:
        assert self._loop is not None
        pace = _WORKING_TICK_S if self._control.is_working else _IDLE_TICK_S
        try:
            self._control.tick()
            facts = (self._queued_rows(), self._status_rows())
            if facts != self._facts:
                self._facts = facts
                self._application.invalidate()
        finally:
            self._loop.call_later(pace, self._tick)

    def _call(self, act: Callable[[], object]) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):
                # prompt_toolkit looks the application up in the context. The caller's context has
                # none, so run_in_terminal would not make room.
                self._loop.call_soon_threadsafe(act, context=self._context)

    def _wake(self) -> None:
        if not self._drawing:
            self._drawing = True
            self._call(self._draw)

    def _draw(self) -> None:
        """Print permanent output above the prompt, and the prompt below it, in one write."""
        self._drawing = False
        application = self._application
        if not application.is_drawn or self._closing:
            return
        above = self.region.take_above()
        application.notice_size()
        with self._output.in_one_write():
            if above:
                application.renderer.erase(leave_alternate_screen=False)
                self._output.write_raw(above.replace("\n", "\r\n"))
            application._redraw()

    # --- how it looks

    def _make_application(self) -> PromptApplication:
        search = SearchToolbar()
        line = Window(
            BufferControl(
                self._line.buffer,
                input_processors=[DrawnCursor(lambda: parking.parks)],
                search_buffer_control=search.control,
                preview_search=True,
            ),
            get_line_prefix=lambda number, wrapped: [
                ("bold", _MARK if number == 0 and wrapped == 0 else "  ")
            ],
            wrap_lines=True,
            height=lambda: Dimension(min=1, max=max(3, self._output.get_size().rows // 2)),
            dont_extend_height=True,
        )

        def rows(content: Callable[[], Sequence[Line | str]]) -> ConditionalContainer:
            shown = self._output.showing(lambda width: content())
            window = Window(shown, dont_extend_height=True)
            return ConditionalContainer(window, Condition(lambda: bool(content())) & ~is_done)

        layout = HSplit(
            [
                rows(lambda: self.region.rows),
                rows(self._queued_rows),
                ConditionalContainer(line, ~is_done),
                rows(self._completion_rows),
                search,
                rows(self._status_rows),
            ]
        )
        application = PromptApplication(
            layout=Layout(layout, focused_element=line),
            key_bindings=bindings(self._line),
            erase_when_done=True,
            color_depth=ColorDepth.DEPTH_4_BIT,
            input=Keyboard(),
            output=self._output,
        )
        application.reflows = reflows(os.environ)
        typing = has_focus(self._line.buffer)
        parking = ParkingRenderer(
            application.renderer.style, self._output, lambda: bool(self.region.rows) and typing()
        )
        application.renderer = parking
        application.ttimeoutlen = _ESCAPE_S
        application.timeoutlen = 0.2
        return application

    def _queued_rows(self) -> list[Line]:
        queued = self._control.queued()
        shown: list[Line] = []
        for waiting in queued[:_MOST_QUEUED_ROWS]:
            word = "after the turn" if waiting.after_turn else "next"
            if self._control.held:
                word = "held, Enter sends it"
            if waiting.held:
                word = "held until /queue release"
            text = printable(waiting.text.strip(), multiline=False)
            shown.append([Span(f"  {word}: {text}", "dim")])
        if (more := len(queued) - len(shown)) > 0:
            shown[-1] = [Span(f"  and {more + 1} more wait", "dim")]
        return shown

    def _completion_rows(self) -> list[Line]:
        completions, marked_at = self._line.completions, self._line.marked
        first = max(0, min(marked_at - 2, len(completions) - _MOST_COMPLETIONS))
        shown = completions[first : first + _MOST_COMPLETIONS]
        column = max((cells(each.text) for each in shown), default=0)
        lines: list[Line] = []
        for number, each in enumerate(shown, first):
            marked = number == marked_at
            text = printable(each.text, multiline=False)
            space = " " * (column - cells(text) + 2)
            name = Span(("> " if marked else "  ") + text, "bold" if marked else "")
            lines.append([name, Span(space + printable(each.help, multiline=False), "dim")])
        return lines

    def _status_rows(self) -> list[Line]:
        hint = self._line.hint
        return [[Span(hint, "yellow")]] if hint else [self._control.status()]
