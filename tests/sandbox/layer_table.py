"""What each layer lets commands do, as `agent doctor` and the tests try it: `python -m
tests.sandbox.layer_table` writes it into docs/safety.md."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

from agentcli.sandbox import probes

DOCUMENT = Path(__file__).parents[2] / "docs/safety.md"
_COLUMNS = {
    "bubblewrap": ("bubblewrap", False),
    "Landlock with namespaces": ("landlock", True),
    "Landlock alone": ("landlock", False),
    "seatbelt": ("seatbelt", False),
}
_HEAD = f"| an attempt to … | {' | '.join(_COLUMNS)} |\n|{'---|' * (1 + len(_COLUMNS))}\n"
_KERNELS = {3: "6.2", 6: "6.12", 9: "7.1"}
"""The kernel of each version of Landlock that holds more."""


def written() -> str:
    text = DOCUMENT.read_text()
    return text[text.index(_HEAD) :].partition("\n\n")[0] + "\n"


def made() -> str:
    rows = (f"| {probes.phrase(name)} | {' | '.join(_cells(name))} |\n" for name in probes.ATTACKS)
    return _HEAD + "".join(rows)


def _cells(name: str) -> list[str]:
    return [_cell(name, *column) for column in _COLUMNS.values()]


def _cell(name: str, layer: str, namespaces: bool) -> str:
    held = [
        version for version in (1, *_KERNELS) if not _is_possible(name, layer, namespaces, version)
    ]
    if not held:
        return "**possible**"
    return "held" if held[0] == 1 else f"**possible** before Linux {_KERNELS[held[0]]}"


def _is_possible(name: str, layer: str, namespaces: bool, version: int) -> bool:
    with mock.patch.object(probes, "landlock_version", return_value=version):
        return probes.expected(layer, namespaces=namespaces)[name]


if __name__ == "__main__":
    DOCUMENT.write_text(DOCUMENT.read_text().replace(written(), made()))
    print(f"written: {DOCUMENT}")
