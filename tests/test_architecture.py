"""The arrows between packages, the homes of heavy imports, and limits on size."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "agentcli"
FILES = sorted(p for p in ROOT.rglob("*.py") if "repository" not in p.parts)
LEAVES = {
    *("errors", "messages", "interrupts", "borders", "own_files", "programs", "safe_git"),
    *("secret_variables", "homes", "git_layout", "git_settings", "toml_text"),
}
MAY_IMPORT = {
    "errors": set(),
    "messages": set(),
    "interrupts": {"errors"},
    "borders": {"git_layout"},
    "git_layout": set(),
    "git_settings": set(),
    "logs": set(),
    "programs": set(),
    "safe_git": set(),
    "own_files": set(),
    "toml_text": set(),
    "homes": {"errors"},
    "secret_variables": set(),
    "git_facts": {"programs", "repository_files"},
    "repository_files": set(),
    "events": {"messages", "events"},
    "sessions": {"events", "sessions", *LEAVES},
    "memory": {"events", "memory", *LEAVES},
    "security": {"events", "security", *LEAVES},
    "runtime": {"events", "runtime", *LEAVES},
    "llm": {"events", "llm", *LEAVES},
    "tools": {"events", "runtime", "tools", *LEAVES},
    "agent": {"events", "sessions", "agent", *LEAVES},
    "ui": {"events", "ui", *LEAVES},
    "config": {"settings", *LEAVES},
    "settings": LEAVES,
    "demo": set(),
}
HOMES = {
    "openai": {"llm/openai_sdk.py"},
    "anthropic": {"llm/providers/anthropic_messages.py"},
    "pexpect": {"runtime"},
    "rich": {"ui", "cli"},
    "typer": {"cli"},
    "pickle": {"sessions/state.py"},
    "genai_prices": {"llm/catalog.py"},
    "jinja2": {"agent/prompts/__init__.py"},
    "yaml": {"knowledge/front_matter.py"},
}


def imports(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_run_one_way(path):
    package = path.relative_to(ROOT).parts[0].removesuffix(".py")
    allowed = MAY_IMPORT.get(package)
    if allowed is None:
        assert package in {
            *("cli", "wiring", "safety", "policing", "reopening", "knowing", "condensing"),
            *("judging", "rewinding", "forking", "hook_setup", "workbench", "watching", "keeping"),
            *("__init__", "__main__"),
        }
        return
    for module in imports(path):
        if module.startswith("agentcli."):
            assert module.split(".")[1] in allowed, f"{package} must not import {module}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_heavy_modules_have_one_home(path):
    for module in imports(path):
        homes = HOMES.get(module.partition(".")[0])
        if homes is not None:
            relative = path.relative_to(ROOT)
            assert {str(relative), relative.parts[0]} & homes, f"{relative} imports {module}"


INSIDE_A_SANDBOX = {"sandbox/probe_driver.py", "shell/python_driver.py"}
STARTERS = {"run", "Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput"}
BY_NAME = {"system", "popen", "execlp", "execvp", "execvpe", "execlpe", "spawnlp", "spawnvp"}


def called(node: ast.Call) -> tuple[str, str]:
    """Module and function of a call such as `subprocess.run(…)`."""
    function = node.func
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        return function.value.id, function.attr
    return "", function.id if isinstance(function, ast.Name) else ""


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_programs_are_found_in_one_place_and_started_by_their_path(path):
    """`programs.find_program` looks only where commands can't write; a bare name would be looked
    up wherever PATH leads."""
    if name_of(path) in INSIDE_A_SANDBOX:
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        module, function = called(node)
        assert (module, function) != ("shutil", "which")
        assert not (module == "os" and function in BY_NAME)
        if module == "subprocess" and function in STARTERS:
            assert not any(keyword.arg == "shell" for keyword in node.keywords)
            command = node.args[0]
            first = command.elts[0] if isinstance(command, ast.List | ast.Tuple) else None
            assert not isinstance(command, ast.Constant)
            if isinstance(first, ast.Constant):
                assert str(first.value).startswith("/"), f"line {node.lineno}: {first.value}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_the_persons_environment_is_asked_for_by_its_name(path):
    """`os.environ` is this process's own, without what leads to where commands can write."""
    if path.relative_to(ROOT).parts[0] in ("cli", "app/agent_builder.py", "app/sandbox.py"):
        own = path.name == "doctor.py"
        assert own or "os.environ" not in path.read_text()


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_files_and_functions_stay_small(path):
    text = path.read_text()
    assert text.count("\n") <= 500
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno - node.lineno < 65, f"{node.name} is too long"
            assert isinstance(node, ast.FunctionDef), f"{node.name}: the core is synchronous"


def test_the_loop_fits_on_two_screens():
    assert (ROOT / "agent" / "loop.py").read_text().count("\n") <= 120


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["--version"], ["typer", "pydantic", "rich", "openai", "anthropic"]),
        (["--help"], ["pydantic", "openai", "anthropic", "pexpect", "prompt_toolkit"]),
        (["run", ""], ["openai", "anthropic", "genai_prices", "prompt_toolkit"]),
    ],
)
def test_start_up_imports_no_more_than_it_needs(arguments, absent):
    program = (
        "import sys, atexit, os; sys.argv = ['agent', *sys.argv[1:]]\n"
        "from agentcli.cli import main\n"
        "main.os._exit = sys.exit\n"
        "try: main.main()\n"
        "except SystemExit: pass\n"
        "print('\\n'.join(m.partition('.')[0] for m in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    loaded = set(done.stderr.splitlines())
    assert "agentcli" in loaded, done.stderr
    assert not loaded & set(absent)


def test_the_threats_name_tests_that_are_there():
    tests = ROOT.parent / "tests"
    table = (ROOT.parent / "docs/threats.md").read_text()
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 20
    for row in rows:
        named = re.findall(r"`([\w/]*test_\w+\.py)`", row.rpartition(" | ")[2])
        assert named, row
        for name in named:
            assert (tests / name).exists() or (tests / "attacks" / name).exists(), name
