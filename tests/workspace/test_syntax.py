"""Syntax errors by the language level of a project."""

from __future__ import annotations

import json
import sys

import pytest

from agentcli.workspace.syntax import introduced_error

NEW = {
    "a type statement": "type X = int\n",
    "type parameters": "def f[T](a: T) -> T: ...\n",
    "a generic class": "class A[T]:\n    pass\n",
    "quotes in an f-string": 'd = {"a": 1}\nx = f"{d["a"]}"\n',
    "a line break in an f-string": 'x = f"{\n1\n}"\n',
    "a template": 'x = t"{1}"\n',
}


@pytest.fixture
def told(tmp_path):
    def check(text: str, old: str = "", name: str = "a.py") -> str | None:
        return introduced_error(tmp_path / name, tmp_path, old, text)

    return check


@pytest.mark.parametrize("text", NEW.values(), ids=NEW.keys())
def test_what_a_newer_python_takes_is_no_error_in_its_project(tmp_path, told, text):
    (tmp_path / "pyproject.toml").write_text('[project]\nrequires-python = ">=3.99"\n')
    assert told(text) is None
    assert told("def f(:\n") is not None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", '[project]\nrequires-python = ">=3.99,<4"\n'),
        ("pyproject.toml", '[tool.poetry.dependencies]\npython = "^3.99"\n'),
        ("setup.cfg", "[options]\npython_requires = >=3.99\n"),
        ("setup.py", 'setup(python_requires=">=3.99")\n'),
        (".python-version", "3.99.1\n"),
    ],
)
def test_where_the_level_is_said(tmp_path, told, name, text):
    (tmp_path / name).write_text(text)
    (tmp_path / "src").mkdir()
    assert told("type X = int\n", name="src/a.py") is None
    (tmp_path / name).write_text(text.replace("3.99", "3.8"))
    assert "Python 3.8" in told("type X = int\n", name="src/a.py") or sys.version_info > (3, 12)


def test_the_virtual_environment_tells_where_nothing_else_does(tmp_path, told):
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").touch(mode=0o755)
    (tmp_path / ".venv/pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.99.0\n")
    assert told("type X = int\n") is None


def test_what_an_older_python_lacks_is_an_error_in_its_project(tmp_path, told):
    match = "match x:\n    case 1:\n        pass\n"
    (tmp_path / "pyproject.toml").write_text('[project]\nrequires-python = ">=3.10"\n')
    assert told(match) is None
    (tmp_path / "pyproject.toml").write_text('[project]\nrequires-python = ">=3.9"\n')
    assert "requires-python allows Python 3.9" in told(match)


def test_a_project_of_python_2_is_not_judged(tmp_path, told):
    (tmp_path / ".python-version").write_text("2.7\n")
    assert told('print "x"\n') is None


COMMENTED = '{\n  // why\n  "a": "http://x", /* b */\n  "c": [1, 2,],\n}\n'


@pytest.mark.parametrize(
    "name",
    [
        *("tsconfig.json", "tsconfig.build.json", "a.jsonc", "x.code-workspace"),
        *("jsconfig.json", ".vscode/settings.json", ".devcontainer/devcontainer.json"),
    ],
)
def test_where_json_may_have_comments(told, name):
    assert told(COMMENTED, name=name) is None
    assert "line 3" in told('{\n  // why\n  "a" 1\n}\n', name=name)


def test_other_json_may_have_none_unless_it_had_some(told):
    assert told(COMMENTED, name="package.json") is not None
    assert told(COMMENTED, COMMENTED, "package.json") is None
    assert told(COMMENTED.replace("[1", "[1 1"), COMMENTED, "package.json") is not None
    assert told(json.dumps({"a": "// no comment, ]"}), name="package.json") is None
