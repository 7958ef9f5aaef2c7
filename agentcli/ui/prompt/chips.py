"""Chips: short placeholders in the input line for long pastes and for images."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from urllib.parse import unquote, urlsplit

from agentcli.ui.sanitize import pasted_text, printable
from agentcli.ui.summary import count

_LONG_LINES = 6
_LONG_CHARS = 600
_IMAGE_ENDINGS = frozenset((".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff"))
_CHIP = re.compile(r"\[(?:pasted|image) #\d+: [^\]\n]*\]")


class Chips:
    """The chips of one prompt, with the texts and images that they stand for."""

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
        """Do the same as `for_paste`, but return text that already has chips as it is."""
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

        def meant(chip: re.Match[str]) -> str:
            image = self._images.get(chip[0])
            return str(image) if image is not None else self._texts.get(chip[0], chip[0])

        return _CHIP.sub(meant, line)


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
