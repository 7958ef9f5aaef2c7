"""The figures, their limits, and how they are written down."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

_START = "<!-- results -->"
_END = "<!-- end of results -->"


@dataclass(frozen=True)
class Figure:
    """One figure: the median of what was measured, the least, and the limit if there is one."""

    part: str
    name: str
    value: float
    unit: str
    limit: float | None = None
    least: float | None = None
    runs: int = 1

    @property
    def ok(self) -> bool | None:
        return None if self.limit is None else self.value <= self.limit


def figure(
    part: str, name: str, values: Sequence[float], unit: str, limit: float | None = None
) -> Figure:
    """The median of `values` stands for them."""
    return Figure(part, name, median(values), unit, limit, min(values), len(values))


def table(figures: Sequence[Figure]) -> str:
    """All figures in Markdown, part by part."""
    lines: list[str] = []
    part = ""
    for one in figures:
        if one.part != part:
            part = one.part
            lines += ["", f"### {part}", "", "| figure | ours | least | limit | ok |"]
            lines += ["|---|--:|--:|--:|---|"]
        least = _number(one.least, one.unit) if one.least is not None and one.runs > 1 else ""
        limit = _number(one.limit, one.unit) if one.limit is not None else ""
        verdict = {None: "", True: "yes", False: "NO"}[one.ok]
        value = _number(one.value, one.unit)
        lines.append(f"| {one.name} | {value} | {least} | {limit} | {verdict} |")
    return "\n".join(lines).strip()


_COMPARED = {
    "start": "start to first request",
    "gap a step": "gap a step, median of all",
    "CPU a step": "CPU a step, start and commands included",
    "whole run": "whole process",
    "memory": "peak memory",
}


def comparison(figures: Sequence[Figure]) -> str:
    """One line for each program that was given many steps, in Markdown; empty without any."""
    parts: dict[str, dict[str, Figure]] = {}
    for one in figures:
        parts.setdefault(one.part, {})[one.name] = one
    head = [f"| | {' | '.join(_COMPARED)} |", "|---" + "|--:" * len(_COMPARED) + "|"]
    lines = []
    for part, found in parts.items():
        if all(name in found for name in _COMPARED.values()):
            cells = [_number(found[name].value, found[name].unit) for name in _COMPARED.values()]
            lines.append(f"| {part} | {' | '.join(cells)} |")
    return "\n".join([*head, *lines]) if lines else ""


def summary(figures: Sequence[Figure], left_out: Sequence[str]) -> str:
    """Everything that was found, in Markdown, with when and where."""
    where = machine()
    head = (
        f"Measured on {where['date']}: {where['cores']} cores, Python {where['python']}, "
        f"{where['system']}; load {where['load']} at the end."
    )
    notes = [f"Left out: {note}" for note in left_out]
    tables = [text for text in (comparison(figures), table(figures)) if text]
    return "\n\n".join([head, *tables, *notes])


def into_readme(path: Path, text: str) -> None:
    """Put `text` between the marks in the file at `path`."""
    before, start, rest = path.read_text(encoding="utf-8").partition(_START)
    _, end, after = rest.partition(_END)
    if not start or not end:
        raise ValueError(f"{path} lacks the marks {_START} and {_END}")
    path.write_text(f"{before}{start}\n\n{text}\n\n{end}{after}", encoding="utf-8")


def machine() -> dict[str, Any]:
    """Where and when this was measured."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "load": round(os.getloadavg()[0], 2),
    }


def write(path: Path, figures: Sequence[Figure], left_out: Sequence[str], seconds: float) -> None:
    """Everything as JSON."""
    data = {
        "machine": machine(),
        "seconds": round(seconds, 1),
        "figures": [_plain(one) for one in figures],
        "left_out": list(left_out),
    }
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _plain(one: Figure) -> dict[str, Any]:
    rounded = {key: round(v, 3) if isinstance(v, float) else v for key, v in asdict(one).items()}
    return rounded | {"ok": one.ok}


def _number(value: float, unit: str) -> str:
    large = abs(value) >= 100 or unit in ("", "tokens")
    digits = 0 if large else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f} {unit}".strip()
