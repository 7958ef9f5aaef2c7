"""Shorten the snapshot of a page's elements without losing information."""

from __future__ import annotations

import re

_CLICKABLE = " [cursor=pointer]"
_NUMBER = re.compile(r" \[ref=(?:f\d+)?e\d+\]")
_ACTED_ON = re.compile(
    r"- (?:button|link|textbox|searchbox|combobox|listbox|option|checkbox|radio|switch|slider"
    r"|spinbutton|tab|menuitem\w*|treeitem|iframe)\b"
)
_PLAIN_BOX = re.compile(r"^- generic(?: \[active\])?(?: \[ref=(?:f\d+)?e\d+\])?")


def compact(snapshot: str) -> str:
    """Shorten a Playwright snapshot. Only elements that can be acted on keep their numbers, and the
    number alone says that an element is clickable. Boxes without a text of their own are removed,
    and their content moves to the left."""
    gone: list[int] = []
    lines = []
    for line in snapshot.split("\n"):
        text = line.lstrip(" ")
        depth = len(line) - len(text)
        while gone and gone[-1] >= depth:
            gone.pop()
        if _CLICKABLE not in text and (box := _PLAIN_BOX.match(text)):
            text = f"- text{text[box.end() :]}"
            if text == "- text:":
                gone.append(depth)
                continue
            if text == "- text":
                continue
        if _CLICKABLE not in text and not _ACTED_ON.match(text):
            text = _NUMBER.sub("", text, count=1)
        lines.append(" " * (depth - 2 * len(gone)) + text.replace(_CLICKABLE, "", 1))
    return "\n".join(lines)
