"""What a page is made of, in as few words as tell it all."""

from __future__ import annotations

import re

_LINE = re.compile(r"( *)(.*)", re.DOTALL)
_CLICKABLE = " [cursor=pointer]"
_PLAIN_BOX = re.compile(r"^- generic(?: \[active\])?(?: \[ref=(?:f\d+)?e\d+\])?")


def compact(snapshot: str) -> str:
    """The snapshot that Playwright makes, without boxes that say nothing and can't be clicked, and
    without a word on what looks clickable: what is in them moves to the left."""
    gone: list[int] = []
    lines = []
    for line in snapshot.split("\n"):
        found = _LINE.fullmatch(line)
        assert found is not None
        blanks, text = found[1], found[2]
        while gone and gone[-1] >= len(blanks):
            gone.pop()
        if _CLICKABLE not in text and (box := _PLAIN_BOX.match(text)):
            text = f"- text{text[box.end() :]}"
            if text == "- text:":
                gone.append(len(blanks))
                continue
            if text == "- text":
                continue
        lines.append(blanks[2 * len(gone) :] + text.replace(_CLICKABLE, ""))
    return "\n".join(lines)
