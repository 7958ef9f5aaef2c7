"""What an install brings along: `python -m tests.dependencies` writes docs/dependencies.md."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "dependencies.md"
PURPOSES = {
    "typer": "commands and their options",
    "rich": "styled output, Markdown in answers",
    "pygments": "colours of code",
    "prompt-toolkit": "the input line of a conversation",
    "openai": "Chat Completions and Responses",
    "anthropic": "Messages",
    "pydantic": "settings, events, arguments of tools",
    "pexpect": "the shell of a session",
    "genai-prices": "prices of models",
    "tree-sitter": "reading shell commands for the rules",
    "tree-sitter-bash": "the grammar for that",
    "jinja2": "system texts",
    "pyyaml": "front matter of skills and agents",
    "pillow": "scaling images down",
    "tomlkit": "changing settings without losing comments",
    "mcp": "tool servers",
    "markdown-it-py": "Markdown on pages of sessions",
    "markdownify": "web pages as Markdown",
    "charset-normalizer": "encodings of files and pages",
    "jsonschema": "answers and arguments that must fit a schema",
    "json-repair": "arguments that are almost JSON",
}
_PERMISSIVE = re.compile(
    r"MIT|BSD|Apache|PSF|Python|ISC|Unlicense|MPL|HPND|CNRI|0BSD", re.IGNORECASE
)


def project() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def required(requirements: Iterable[str], extras: Iterable[str] = ()) -> Iterator[Requirement]:
    """Yield what is required on this machine, with these extras."""
    for each in map(Requirement, requirements):
        if each.marker is None or any(each.marker.evaluate({"extra": e}) for e in ("", *extras)):
            yield each


def direct() -> list[str]:
    """Return the packages that the program uses itself."""
    return [canonicalize_name(each.name) for each in required(project()["dependencies"])]


def closure() -> dict[str, Distribution]:
    """Return the installed packages among the direct ones and all that they need."""
    found: dict[str, Distribution] = {}
    seen: set[str] = set()
    left = list(required(project()["dependencies"]))
    while left:
        wanted = left.pop()
        if str(wanted) in seen:
            continue
        seen.add(str(wanted))
        with suppress(PackageNotFoundError):
            package = distribution(wanted.name)
            found[canonicalize_name(wanted.name)] = package
            left += required(package.requires or (), wanted.extras)
    return found


def licence(package: Distribution) -> str:
    about = package.metadata
    classifiers = [c for c in about.get_all("Classifier", []) if c.startswith("License ::")]
    told = about.get("License-Expression") or ""
    told = told or ", ".join(c.rpartition(" :: ")[2] for c in classifiers)
    return told or (about.get("License") or "").strip().split("\n")[0][:40] or "unknown"


def is_permissive(package: Distribution) -> bool:
    return _PERMISSIVE.search(licence(package)) is not None


@cache
def megabytes(name: str) -> float:
    files = distribution(name).files or []
    kept = (file.locate() for file in files if file.suffix != ".pyc")
    return sum(Path(str(f)).stat().st_size for f in kept if Path(str(f)).is_file()) / 1e6


def document() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    ours, packages = direct(), closure()
    others = sorted(packages.keys() - set(ours))
    total = sum(map(megabytes, packages))
    yield "# Dependencies\n"
    yield "Made by `python -m tests.dependencies`, from the packages installed where it runs.\n"
    yield (
        f"The base install takes {len(packages)} packages and {total:.0f} MB: {len(ours)} that "
        f"the program uses itself, and {len(others)} that these need. Each is loaded where it "
        "is first used, so what a run does not need costs it no time.\n"
    )
    yield "| package | MB | licence | what for |"
    yield "|---|--:|---|---|"
    for name in sorted(ours, key=lambda each: -megabytes(each)):
        told = licence(packages[name])
        yield f"| {name} | {megabytes(name):.1f} | {told} | {PURPOSES[name]} |"
    yield "\n## What these need\n"
    yield "| package | MB | licence |"
    yield "|---|--:|---|"
    for name in sorted(others, key=lambda each: -megabytes(each)):
        yield f"| {name} | {megabytes(name):.1f} | {licence(packages[name])} |"
    yield "\n## Extras\n"
    yield (
        "Heavy and rarely needed packages are installed only with their extra; `agent` names the "
        "extra when one is missing.\n"
    )
    yield "| extra | packages |"
    yield "|---|---|"
    for extra, wanted in sorted(project()["optional-dependencies"].items()):
        yield f"| `agentcli[{extra}]` | {', '.join(sorted(set(map(_shown, wanted))))} |"


def _shown(requirement: str) -> str:
    return re.split(r"[<>=!~;]", requirement)[0].strip()


if __name__ == "__main__":
    DOCUMENT.write_text(document())
