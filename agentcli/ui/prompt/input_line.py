"""The input line of the prompt: what is typed, its chips and its completions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Thread

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.history import History

from agentcli.ui.prompt.chips import Chips
from agentcli.ui.prompt.control import Completion, Control, Delivery, Submission


class InputLine:
    """The input line, for the prompt's thread only; `call` has a function called there. `hint` is
    shown below the line until the next key; `completions` too, with the one that is `marked`."""

    def __init__(
        self,
        control: Control,
        history: History,
        chips: Chips,
        find_image: Callable[[], Path | None],
        call: Callable[[Callable[[], object]], None],
    ) -> None:
        self.control = control
        self.hint = ""
        self.completions: Sequence[Completion] = ()
        self.marked = 0
        self._completed = 0
        """How many characters before the cursor are being completed."""
        self._chips = chips
        self._find_image = find_image
        self._call = call
        self.buffer = Buffer(
            multiline=True,
            history=history,
            tempfile_suffix=".md",
            on_text_changed=lambda buffer: self._take_change(),
        )

    def submission(self, delivery: Delivery) -> Submission:
        """Return what is typed, and clear the line."""
        line = self.buffer.text.strip()
        text, images = self._chips.expand(line)
        self.completions = ()
        if line:
            self.buffer.append_to_history()
        self.buffer.reset()
        return Submission(text.strip(), images, delivery, line)

    def put(self, text: str) -> None:
        """Insert text that the user did not type: the hint, which explains it, stays."""
        hint = self.hint
        self.buffer.insert_text(self._chips.folded(text))
        self.hint = hint

    def paste(self, text: str) -> None:
        self.buffer.insert_text(self._chips.for_paste(text))

    def paste_image(self) -> None:
        """Insert the image in the clipboard, whose owner may answer slowly."""

        def look() -> None:
            path = self._find_image()
            self._call(lambda: self._insert_image(path))

        Thread(target=look, name="clipboard", daemon=True).start()

    def _insert_image(self, path: Path | None) -> None:
        if path is not None:
            self.buffer.insert_text(self._chips.for_image(path))
        else:
            self.hint = "no image in the clipboard"

    def move_mark(self, by: int) -> None:
        """Mark another completion."""
        self.marked = (self.marked + by) % len(self.completions)

    def accept(self) -> None:
        """Insert the marked completion."""
        chosen = self.completions[self.marked]
        self.buffer.delete_before_cursor(self._completed)
        self.buffer.insert_text(chosen.text)

    def is_typed_out(self) -> bool:
        """Return whether the marked completion would add nothing."""
        before = self.buffer.document.text_before_cursor
        typed = before[len(before) - self._completed :]
        return self.completions[self.marked].text.rstrip() == typed.rstrip()

    def look_for_completions(self) -> None:
        before = self.buffer.document.text_before_cursor
        self._completed, self.completions = self.control.complete(before)
        self.marked = 0

    def _take_change(self) -> None:
        self.hint = ""
        self.look_for_completions()
