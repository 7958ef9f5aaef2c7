"""The command lines and Python cells of the data files beside this one."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

HARMLESS = Path(__file__).with_name("harmless.toml")
HARMFUL = Path(__file__).with_name("harmful.toml")


@dataclass(frozen=True)
class Sample:
    """One call of a tool, `bash` or `python`. `decided`: it must not even run."""

    group: str
    tool: str
    text: str
    wider: tuple[str, ...] = ()
    decided: bool = False

    @property
    def arguments(self) -> dict[str, object]:
        name = "command" if self.tool == "bash" else "code"
        asked: dict[str, object] = dict.fromkeys(self.wider, True)
        reason = {"reason": "it needs it"} if asked else {}
        return {name: self.text, **asked, **reason}

    def filled(self, places: Mapping[str, str]) -> Sample:
        text = self.text
        for name, value in places.items():
            text = text.replace(f"%{name}%", value)
        return replace(self, text=text)


def samples(path: Path) -> list[Sample]:
    groups = tomllib.loads(path.read_text("utf-8"))["group"]
    return list(dict.fromkeys(sample for group in groups for sample in _of(group)))


def _of(group: dict[str, Any]) -> Iterator[Sample]:
    wider = tuple(name for name in ("network", "unsandboxed") if group.get(name))
    lines = [("bash", line) for line in group.get("lines", "").splitlines() if line.strip()]
    blocks = [("bash", block) for block in group.get("blocks", ())]
    cells = [("python", cell) for cell in group.get("cells", ())]
    for place in group.get("places", [""]):
        for tool, text in (*lines, *blocks, *cells):
            filled = text.replace("%PLACE%", place)
            yield Sample(group["about"], tool, filled, wider, group.get("decided", False))
