"""The input line of the prompt: what is typed, its history, its completions, and chips, the short
placeholders for long pastes and for images.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlsplit

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.history import History

from agentcli.ui.prompt.control import Completion, Control, Delivery, Submission
from agentcli.ui.summary import count
from agentcli.ui.text import pasted_text, printable

_LONG_LINES = 6
_LONG_CHARS = 600
_IMAGE_ENDINGS = frozenset((".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff"))
_CHIP = re.compile(r"\[(?:pasted|image) #\d+: [^\]\n]*\]")


class Chips:
    """The chips of one prompt, with their texts and images."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._images: dict[str, Path] = {}

    def for_paste(self, pasted: str) -> str:
        """Return what goes into the input line for `pasted`: the text itself if it is short, else
        a chip."""
        text = pasted_text(pasted)
        if path := _image_path(text):
            return self.for_image(path)
        lines = text.count("\n") + 1
        if lines <= _LONG_LINES and len(text) <= _LONG_CHARS:
            return text
        size = count(lines, "line") if lines > 1 else count(len(text), "character")
        chip = f"[pasted #{self._next_number()}: {size}]"
        self._texts[chip] = text
        return chip

    def folded(self, text: str) -> str:
        """Like `for_paste`, but return text that already has chips unchanged."""
        return text if _CHIP.search(text) else self.for_paste(text)

    def for_image(self, path: Path) -> str:
        name = printable(path.name, multiline=False).translate({ord("]"): ")", ord("\n"): " "})
        chip = f"[image #{self._next_number()}: {name}]"
        self._images[chip] = path
        return chip

    def _next_number(self) -> int:
        return len(self._texts) + len(self._images) + 1

    def expand(self, line: str) -> tuple[str, tuple[Path, ...]]:
        """Return `line` with its chips replaced by their texts, and the images in it in order."""
        images = [self._images[chip] for chip in _CHIP.findall(line) if chip in self._images]
        return _CHIP.sub(lambda chip: self._texts.get(chip[0], chip[0]), line), tuple(images)

    def written_out(self, line: str) -> str:
        """Return `line` without chips, so that it can be typed in another conversation."""

        meant = {**self._texts, **{chip: str(image) for chip, image in self._images.items()}}
        return _CHIP.sub(lambda chip: meant.get(chip[0], chip[0]), line)


def _image_path(text: str) -> Path | None:
    """Return the path of an image file that was dropped on the terminal, quoted or escaped."""
    try:
        words = shlex.split(text.strip())
    except ValueError:
        return None
    if len(words) != 1 or Path(words[0]).suffix.lower() not in _IMAGE_ENDINGS:
        return None
    word = unquote(urlsplit(words[0]).path) if words[0].startswith("file://") else words[0]
    path = Path(word).expanduser()
    return path.absolute() if path.is_absolute() and path.is_file() else None


log = logging.getLogger(__name__)
_MOST_BYTES = 2_000_000
_KEPT = 1_000
_LONGEST = 20_000
"""Most characters of one entry; a longer one was pasted, and can be found in its session."""


class SharedHistory(History):
    """A file with a line of JSON for each entry, shared by all conversations of a user. `to_keep`
    removes from a line what must not be saved."""

    def __init__(self, path: Path, to_keep: Callable[[str], str]) -> None:
        super().__init__()
        self._path = path
        self._to_keep = to_keep

    def load_history_strings(self) -> Iterable[str]:
        """Yield the entries, newest first."""
        try:
            with open(self._path, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _MOST_BYTES))
                lines = file.read().split(b"\n")
        except OSError:
            return
        before = None
        for line in lines[: -_KEPT - 1 : -1]:
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, str) and entry != before:
                before = entry
                yield entry

    def store_string(self, string: str) -> None:
        kept = self._to_keep(string)
        if not kept.strip() or len(kept) > _LONGEST:
            return
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(self._path, flags, 0o600), "ab") as file:
                file.write(json.dumps(kept).encode() + b"\n")
        except OSError as error:
            log.warning("the history was not saved: %s", error)


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
            on_text_changed=self._take_change,
        )

    def submission(self, delivery: Delivery) -> Submission:
        """Return the typed text, and clear the line."""
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

        def insert(path: Path | None) -> None:
            if path is not None:
                self.buffer.insert_text(self._chips.for_image(path))
            else:
                self.hint = "no image in the clipboard"

        def look() -> None:
            path = self._find_image()
            self._call(lambda: insert(path))

        Thread(target=look, name="clipboard", daemon=True).start()

    def move_mark(self, by: int) -> None:
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

    def _take_change(self, buffer: Buffer) -> None:
        self.hint = ""
        self.look_for_completions()
