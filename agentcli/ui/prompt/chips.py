"""Long pastes and images, which stand in the input line as a short chip each."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from urllib.parse import unquote, urlsplit

from agentcli.ui.sanitize import printable
from agentcli.ui.summary import count

_LONG_LINES = 6
_LONG_CHARS = 600
_IMAGE_ENDINGS = frozenset((".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff"))
_CHIP = re.compile(r"\[(?:pasted|image) #(\d+)[^\]\n]*\]")


class Chips:
    """What stands behind the chips of this prompt, by their numbers."""

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}
        self._images: dict[int, Path] = {}
        self._count = 0

    def for_paste(self, pasted: str) -> str:
        """What goes into the input line for `pasted`: itself if it is short."""
        text = _clean(pasted)
        if path := _image_path(text):
            return self.for_image(path)
        lines = text.count("\n") + 1
        if lines <= _LONG_LINES and len(text) <= _LONG_CHARS:
            return text
        self._count += 1
        self._texts[self._count] = text
        size = count(lines, "line") if lines > 1 else count(len(text), "character")
        return f"[pasted #{self._count}: {size}]"

    def for_image(self, path: Path) -> str:
        self._count += 1
        self._images[self._count] = path
        name = printable(path.name, multiline=False).translate({ord("]"): ")", ord("\n"): " "})
        return f"[image #{self._count}: {name}]"

    def expand(self, line: str) -> tuple[str, tuple[Path, ...]]:
        """The text that is meant by `line`, and the images named in it in their order."""
        images: list[Path] = []

        def meant(chip: re.Match[str]) -> str:
            number = int(chip[1])
            if number in self._images:
                images.append(self._images[number])
            return self._texts.get(number, chip[0])

        return _CHIP.sub(meant, line), tuple(images)


def _clean(text: str) -> str:
    """With the line ends of a text, and none of the characters that drive a terminal."""
    return printable(text.replace("\r\n", "\n").replace("\r", "\n"))


def _image_path(text: str) -> Path | None:
    """The image that a path dropped on the terminal names, quoted or escaped as it may be."""
    try:
        words = shlex.split(text.strip())
    except ValueError:
        return None
    if len(words) != 1 or Path(words[0]).suffix.lower() not in _IMAGE_ENDINGS:
        return None
    word = unquote(urlsplit(words[0]).path) if words[0].startswith("file://") else words[0]
    path = Path(word).expanduser()
    return path.absolute() if path.is_absolute() and path.is_file() else None
