"""The documents: the reference is as the code is, links lead somewhere, and the index names all."""

from __future__ import annotations

import ast
import os
import re
from difflib import unified_diff
from pathlib import Path

import pytest

import agentcli
from tests import dependencies, picture, reference
from tests.architecture import FILES, parsed

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
LINK = re.compile(r"(?:\]\(|srcset=\"|src=\")(?!https?://|mailto:)([^)\s\"#]*)(?:#([^)\"]+))?[)\"]")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def test_the_reference_is_as_the_code_is():
    made = {**reference.pages(), reference.MANUAL.name: reference.manual()}
    pages = [reference.MANUAL, *reference.FOLDER.glob("*.md")]
    kept = {path.name: path.read_text() for path in pages}
    changes = "\n".join(
        line
        for name in sorted(made.keys() | kept.keys())
        for line in unified_diff(
            kept.get(name, "").splitlines(), made.get(name, "").splitlines(), name, "now", n=0
        )
    )
    assert not changes, f"{changes}\n\nIf this is meant: python -m tests.reference"


def test_every_exit_code_of_the_code_is_in_the_reference():
    found = {
        node.value
        for path in FILES
        for code in ast.walk(parsed(path))
        if isinstance(code, ast.Assign | ast.AnnAssign | ast.keyword)
        and _is_exit_code(code)
        and isinstance(node := code.value, ast.Constant)
        and isinstance(node.value, int)
    }
    assert found
    assert found <= reference.EXIT_CODES.keys()


def _is_exit_code(node: ast.Assign | ast.AnnAssign | ast.keyword) -> bool:
    if isinstance(node, ast.keyword):
        return node.arg == "exit_code"
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return "exit_code" in ast.unparse(targets[0]).lower()


def test_links_lead_somewhere():
    broken = []
    for page in PAGES:
        for path, heading in LINK.findall(CODE.sub("", page.read_text())):
            target = Path(os.path.normpath(page.parent / path)) if path else page
            if not target.exists():
                broken.append(f"{page.relative_to(ROOT)}: {path}")
            elif heading and heading not in _anchors(target):
                broken.append(f"{page.relative_to(ROOT)}: {path}#{heading}")
    assert not broken


def _anchors(page: Path) -> set[str]:
    titles = HEADING.findall(CODE.sub(lambda m: "" if "\n" in m[0] else m[0], page.read_text()))
    return {re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in titles}


def test_the_index_names_every_document():
    named = set(re.findall(r"\]\(([\w/-]+\.md)\)", (DOCS / "index.md").read_text()))
    there = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    assert named == there - {"index.md"}


def test_the_front_page_stays_one():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 160


def test_the_changelog_begins_with_this_version():
    versions = re.findall(r"^## ([\d.]+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert versions[0] == agentcli.__version__


@pytest.mark.parametrize("theme", picture.THEMES)
def test_the_picture_of_the_readme_is_what_a_terminal_shows(conversation, theme):
    kept = (DOCS / f"session-{theme}.svg").read_text()
    assert picture.words(kept) == picture.words(picture.svg(conversation, theme))
    assert "http" not in re.sub(r'xmlns="[^"]*"|<!--.*?-->', "", kept)


@pytest.fixture(scope="module")
def conversation(tmp_path_factory):
    return picture.screen(tmp_path_factory.mktemp("picture"))


def test_every_dependency_of_the_base_install_is_in_the_table():
    table, _, rest = dependencies.DOCUMENT.read_text().partition("\n## ")
    assert set(re.findall(r"^\| ([\w-]+) \| [\d.]+", table, re.MULTILINE)) == set(
        dependencies.direct()
    )
    extras = set(re.findall(r"^\| `agentcli\[([\w-]+)\]`", rest, re.MULTILINE))
    assert extras == dependencies.project()["optional-dependencies"].keys()


def test_every_licence_of_the_base_install_is_permissive():
    assert {
        name: dependencies.licence(package)
        for name, package in dependencies.closure().items()
        if not dependencies.is_permissive(package)
    } == {}
