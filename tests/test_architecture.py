"""The arrows between packages, the homes of heavy imports, and limits on size."""

from __future__ import annotations

import ast
import graphlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture import (
    DOCUMENT,
    FILES,
    MODULES,
    ROOT,
    arrows,
    documented,
    imports,
    imports_inside_functions,
    package_of,
    parsed,
)
from tests.lazy_imports import LAZY_IMPORTS

MAY_IMPORT = {
    "errors": set(),
    "extensions": set(),
    "messages": set(),
    "logs": set(),
    "interrupts": {"errors"},
    "settings": set(),
    "plain_json": set(),
    "events": {"messages"},
    "system": {"errors"},
    "workspace": {"errors", "events", "messages", "system"},
    "git": {"events", "workspace", "interrupts", "system"},
    "llm": {
        *("errors", "events", "extensions", "interrupts", "messages"),
        *("plain_json", "settings", "system"),
    },
    "sessions": {
        *(
            "errors",
            "extensions",
            "events",
            "workspace",
            "interrupts",
            "messages",
            "page",
            "system",
        ),
        "ui",
    },
    "memory": {"errors", "events", "extensions", "messages", "settings"},
    "knowledge": {"errors", "events", "workspace", "git", "settings", "system"},
    "security": {"errors", "events", "workspace"},
    "evidence": {"events", "security"},
    "sandbox": {"errors", "workspace", "git", "security", "system"},
    "checkpoints": {"errors", "events", "workspace", "git", "system"},
    "shell": {"workspace", "interrupts", "messages", "sandbox", "security", "system"},
    "web": {"errors"},
    "browser": {"errors", "workspace", "interrupts", "sandbox", "security", "system", "web"},
    "tools": {
        "extensions",
        "security",
        "browser",
        "errors",
        "events",
        "workspace",
        "git",
        "knowledge",
        "messages",
        "plain_json",
        "sandbox",
        "shell",
        "web",
    },
    "agent": {
        *(
            "errors",
            "events",
            "workspace",
            "interrupts",
            "memory",
            "messages",
            "sessions",
            "settings",
        ),
    },
    "hooks": {
        *("agent", "errors", "events", "interrupts", "sandbox", "sessions", "shell", "system"),
    },
    "mcp": {
        *("errors", "events", "interrupts", "llm", "messages", "plain_json", "sandbox"),
        *("settings", "shell", "system", "tools"),
    },
    "replay": {"errors", "events", "workspace", "security", "sessions"},
    "page": {"events", "evidence", "memory", "ui"},
    "ui": {"errors", "events", "evidence", "workspace", "messages"},
    "demo": set(),
}
"""All arrows between packages. `app` puts the parts together, `api`, `batch` and `acp` drive them,
and `cli` is on top: they may import whatever they need, but only `cli` and `acp` the `ui`."""
ON_TOP = {
    "app": {"cli", "acp", "batch", "api", "ui", "demo"},
    "api": {"cli", "acp", "batch", "ui", "demo"},
    "batch": {"cli", "acp", "ui", "demo"},
    "acp": {"cli", "demo"},
    "cli": {"demo"},
}
"""And what these may not."""
HOMES = {
    "openai": set(),
    "anthropic": set(),
    "pexpect": {"shell"},
    "rich": {"ui", "cli"},
    "typer": {"cli"},
    "pickle": {"sessions/state.py"},
    "genai_prices": {"llm/catalog.py"},
    "jinja2": {"agent/prompts/__init__.py"},
    "yaml": {"knowledge/definitions.py", "batch/preparing.py"},
    "mcp": {"mcp"},
    "mcp_types": {"mcp"},
    "anyio": {"mcp"},
    "markdown_it": {"page", "ui"},
    "acp": {"acp"},
    "playwright": {"browser"},
}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_imports_run_one_way():
    parts = {package_of(module) for module in MODULES} - {"", "__main__"}
    assert parts == MAY_IMPORT.keys() | ON_TOP.keys()
    told = {(package, other) for package, others in MAY_IMPORT.items() for other in others}
    found = {arrow for arrow in arrows() if arrow[0] in MAY_IMPORT}
    assert found - told == set(), "these are new"
    assert told - found == set(), "these are gone"
    assert not {a for a in arrows() if a[1] in ON_TOP.get(a[0], set())}


def test_imports_inside_functions_have_a_reason():
    found = {(name_of(path), module) for path in FILES for module in imports_inside_functions(path)}
    assert found - LAZY_IMPORTS.keys() == set(), "these belong at the top, or need a reason"
    assert LAZY_IMPORTS.keys() - found == set(), "these are gone"


def test_packages_can_be_put_in_an_order():
    graphlib.TopologicalSorter(MAY_IMPORT).prepare()


def test_the_drawing_shows_what_is():
    assert DOCUMENT.read_text() == documented(), "python -m tests.architecture draws it"


def test_no_file_imports_in_a_circle():
    inside = {
        module: {name for name in imports(path) if name in MODULES and name != module}
        for module, path in MODULES.items()
    }
    graphlib.TopologicalSorter(inside).prepare()


def test_heavy_modules_have_one_home():
    found = []
    for path in FILES:
        places = {name_of(path), path.relative_to(ROOT).parts[0]}
        for module in imports(path):
            homes = HOMES.get(module.partition(".")[0])
            if homes is not None and not places & homes:
                found.append(f"{name_of(path)} imports {module}")
    assert not found, "\n".join(found)


INSIDE_A_SANDBOX = {"sandbox/probe_driver.py", "shell/python_driver.py"}
STARTERS = {"run", "Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput"}
BY_NAME = {"system", "popen", "execlp", "execvp", "execvpe", "execlpe", "spawnlp", "spawnvp"}


def called(node: ast.Call) -> tuple[str, str]:
    """Module and function of a call such as `subprocess.run(…)`."""
    function = node.func
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        return function.value.id, function.attr
    return "", function.id if isinstance(function, ast.Name) else ""


def how_programs_are_started(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """What is wrong with it, by line."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        module, function = called(node)
        if (module, function) == ("shutil", "which") or (module == "os" and function in BY_NAME):
            yield node.lineno, f"{module}.{function}"
        if module == "subprocess" and function in STARTERS:
            if any(keyword.arg == "shell" for keyword in node.keywords):
                yield node.lineno, "by a shell"
            command = node.args[0]
            first = command.elts[0] if isinstance(command, ast.List | ast.Tuple) else None
            by_name = isinstance(first, ast.Constant) and not str(first.value).startswith("/")
            if isinstance(command, ast.Constant) or by_name:
                yield node.lineno, f"by name: {ast.unparse(command)}"


def test_programs_are_found_in_one_place_and_started_by_their_path():
    """`programs.find_program` looks only where commands can't write; a bare name would be looked
    up wherever PATH leads."""
    found = [
        f"{name_of(path)}:{line}: {problem}"
        for path in FILES
        if name_of(path) not in INSIDE_A_SANDBOX
        for line, problem in how_programs_are_started(parsed(path))
    ]
    assert not found, "\n".join(found)


def test_the_persons_environment_is_asked_for_by_its_name():
    """`os.environ` is this process's own, without what leads to where commands can write."""
    cli = [path for path in FILES if name_of(path).startswith("cli/") and path.name != "doctor.py"]
    app = [ROOT / "app" / name for name in ("agent_builder.py", "containment.py")]
    found = [name_of(path) for path in (*cli, *app) if "os.environ" in path.read_text()]
    assert not found, "\n".join(found)


def test_files_and_functions_stay_small():
    found = []
    for path in FILES:
        text = path.read_text()
        if text.count("\n") > 500:
            found.append(f"{name_of(path)} is too long")
        for node in ast.walk(parsed(path)):
            # The SDKs of tool servers and of editors are asynchronous, their loops have threads of
            # their own; so has the library that drives the browser, with a process of its own.
            edge = name_of(path).startswith(("mcp/", "browser/", "acp/"))
            if isinstance(node, ast.AsyncFunctionDef) and not edge:
                found.append(f"{name_of(path)}: {node.name}: the core is synchronous")
            elif isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= 65:
                found.append(f"{name_of(path)}: {node.name} is too long")
    assert not found, "\n".join(found)


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


@pytest.mark.parametrize(("document", "rows"), [("threats.md", 20), ("architecture.md", 10)])
def test_what_is_promised_names_tests_that_are_there(document, rows):
    tests = ROOT.parent / "tests"
    told = re.findall(
        r"^\| .*`[\w/]*test_\w+\.py`.*$", (DOCUMENT.parent / document).read_text(), re.M
    )
    assert len(told) > rows
    for name in re.findall(r"`([\w/]*test_\w+\.py)`", "\n".join(told)):
        assert (tests / name).exists() or (tests / "attacks" / name).exists(), name


_TOPS = (ROOT, ROOT.parent, ROOT.parent / "tests")


def test_the_life_of_a_task_names_files_that_are_there():
    named = re.findall(r"`([\w/]+\.py)`", DOCUMENT.read_text())
    gone = [n for n in named if not any((top / n).exists() for top in _TOPS)]
    assert len(named) > 30
    assert gone == []
