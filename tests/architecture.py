"""What imports what: `python -m tests.architecture` draws it into docs/architecture.md."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1] / "agentcli"
DOCUMENT = ROOT.parent / "docs/architecture.md"
FILES = sorted(p for p in ROOT.rglob("*.py") if "repository" not in p.parts)
MODULES = {
    ".".join(("agentcli", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(
        ".__init__"
    ): path
    for path in FILES
}
_BEGIN, _END = "```mermaid\n", "```\n"


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def imports(path: Path) -> frozenset[str]:
    """Modules that a file names anywhere, relative ones and those taken from a package too."""
    return frozenset(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in _statements(parsed(path)):
        yield from _imported(node, path)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """All below `node`; expressions, most of a file, hold none."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child
            yield from _statements(child)


def _imported(node: ast.AST, path: Path) -> Iterator[str]:
    here = ("agentcli", *path.relative_to(ROOT).parts[:-1])
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = here[: len(here) - node.level + 1] if node.level else ()
        base = ".".join((*above, *filter(None, [node.module])))
        for alias in node.names:
            whole = f"{base}.{alias.name}"
            yield whole if whole in MODULES else base


def imports_inside_functions(path: Path) -> Iterator[str]:
    """Modules that are loaded when a function is called."""
    for function in _statements(parsed(path)):
        if isinstance(function, ast.FunctionDef):
            for node in _statements(function):
                yield from _imported(node, path)


def package_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def arrows() -> set[tuple[str, str]]:
    """Between packages; modules that stand beside them count as ones."""
    return {
        (package_of(module), package_of(name))
        for module, path in MODULES.items()
        for name in imports(path)
        if name in MODULES and package_of(name) not in ("", package_of(module))
    }


def drawing() -> str:
    """All arrows between packages but those that follow from two others."""
    found = {a for a in arrows() if a[0] not in ("", "__main__") and a[1] not in _BESIDE}
    reach: dict[str, set[str]] = {}

    def below(package: str) -> set[str]:
        if package not in reach:
            direct = {b for a, b in found if a == package}
            reach[package] = direct.union(*map(below, direct))
        return reach[package]

    lines = [
        f"    {a} --> {b}"
        for a, b in sorted(found)
        if not any(b in below(other) for one, other in found if one == a)
    ]
    return "\n".join([f"{_BEGIN}graph TD", *lines, _END])


_BESIDE = (
    *("errors", "extensions", "messages", "interrupts"),
    *("logs", "plain_json", "settings"),
)


def documented() -> str:
    """The document with the drawing as it is now."""
    text = DOCUMENT.read_text()
    begin = text.index(_BEGIN)
    end = text.index(_END, begin + len(_BEGIN)) + len(_END)
    return text[:begin] + drawing() + text[end:]


if __name__ == "__main__":
    DOCUMENT.write_text(documented())
