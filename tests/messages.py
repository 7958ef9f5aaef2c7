"""Every text that a model can read, in one file to be reviewed: `python -m tests.messages` writes
it anew.

It has the system text in each case, the tools as they are told, what calls of each kind come to,
and, out of the code of all parts that speak to a model, every string that reads as prose. What is
in there for people only does no harm.
"""

from __future__ import annotations

import ast
import json
import os
import re
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from agentcli.agent.prompts import PromptFacts, PromptManager, SandboxFacts
from agentcli.messages import ToolCall
from agentcli.shell.python import PythonInterpreter
from agentcli.shell.shell import Shell
from agentcli.tools.base import ToolContext
from agentcli.tools.registry import TOOLS, ToolRegistry
from agentcli.workspace.private import OutputFolder
from agentcli.workspace.tracking import FileTracker

GOLDEN = Path(__file__).parent / "golden" / "messages.txt"
ROOT = Path(__file__).parents[1] / "agentcli"
_SPEAKING = (
    *("agent", "checkpoints", "git", "hooks", "knowledge", "mcp", "memory", "sandbox"),
    *("security", "shell", "tools", "web", "workspace", "llm/text_tools.py"),
)
_SPEAKING_ALONE = (
    "app/answer_schema.py",
    "app/policy.py",
    "app/requirements.py",
    "app/resume.py",
    "app/agent_builder.py",
    "app/session_tools.py",
    "git/git_config_risks.py",
    "app/models.py",
)
_PROSE = re.compile(r"[A-Za-z]{2,}[,;:]? [a-z{]")
_SILENT_CALLS = frozenset({"compile", "debug", "info", "warning", "exception", "fullmatch"})

CALLS: tuple[tuple[str, dict[str, object]], ...] = (
    ("bash", {"command": "echo hi; echo oops >&2; (exit 3)"}),
    ("bash", {"command": "cd src"}),
    ("bash", {"command": "seq -f 'line %g of a long output' 1 3000"}),
    ("bash", {"command": "cat ../long.py"}),
    ("bash", {"command": "printf '%70000s' | tr ' ' x"}),
    ("bash", {"command": "cd ..; false; (echo a; exec sleep 99) | tail -1", "timeout": 1}),
    ("bash", {"command": "cd /; false\nsleep 99", "timeout": 1}),
    ("bash", {"command": "while :; do :; done", "timeout": 1}),
    ("bash", {"command": "read -p 'name? ' x </dev/tty"}),
    ("bash", {"command": "exit 4"}),
    ("bash", {"command": "sleep 99", "background": True}),
    ("bash", {"command": "look", "job": "job-1"}),
    ("bash", {"command": "stop", "job": "job-7"}),
    ("bash", {"command": "true", "timeout": 9_000}),
    ("bash", {"command": "true", "network": True}),
    ("bash", {"cmd": "true"}),
    ("shell", {"command": "true"}),
    ("python", {"code": "exit(2)"}),
    ("python", {"code": "import time\ntime.sleep(99)", "timeout": 1}),
    ("read", {"path": "src/a.py"}),
    ("read", {"path": "src/b.py"}),
    ("read", {"path": "long.py", "start": 10, "end": 12}),
    ("read", {"path": "wide.txt"}),
    ("read", {"path": "long.py", "start": 99_999}),
    ("read", {"path": "data.blob"}),
    ("read", {"path": "/dev/zero"}),
    ("read", {"path": "."}),
    ("edit", {"path": "src/a.py", "old_str": "x = 1", "new_str": "x = 2"}),
    ("edit", {"path": "src/a.py", "old_str": "    return y", "new_str": ""}),
    ("edit", {"path": "src/a.py", "old_str": "x", "new_str": "z"}),
    ("edit", {"path": "src/a.py", "old_str": "x = 2", "new_str": "x = ("}),
    ("edit", {"path": "src/a.py", "undo": True}),
    ("edit", {"path": "new.py", "old_str": "a", "new_str": "b"}),
    ("edit", {"path": "src/a.py"}),
    ("write", {"path": "new.py", "content": "a = 1\n"}),
    ("grep", {"pattern": "=", "max_results": 2}),
    ("grep", {"pattern": "nowhere"}),
    ("grep", {"pattern": "("}),
    ("glob", {"pattern": "*.rs"}),
    ("glob", {"pattern": "*", "path": "nowhere"}),
    ("todo", {"tasks": [{"title": "a"}, {"title": "b", "status": "done"}]}),
    ("write", {"path": "long.py", "content": ""}),
    ("recall", {}),
    ("finish", {"status": "failure", "answer": "no"}),
)


def collected() -> str:
    parts = [
        ("The system text", _system_texts()),
        ("The tools", _tools()),
        ("What calls come to", _results()),
        ("Every other text in the code", _prose()),
    ]
    return "\n".join(f"# {title}\n\n{text}" for title, text in parts)


def _system_texts() -> str:
    sandbox = SandboxFacts(
        "bubblewrap", loopback=True, writable=("/w",), protected=(".git/hooks",), private_tmp=True
    )
    boxes = (None, sandbox, SandboxFacts("bubblewrap", sealed=True, loopback=True))
    texts = []
    for watched, small, box in product((False, True), (False, True), boxes):
        facts = PromptFacts(watched=watched, small_window=small, sandbox=box)
        case = f"watched: {watched}, small window: {small}, sandbox: {box and box.layer}"
        texts.append(f"## {case}\n{PromptManager().system_text(facts)}\n")
    return "\n".join(texts)


def _tools() -> str:
    schemas = (tool.schema() for tool in TOOLS.all().values())
    return "".join(
        f"## {schema.name}\n{schema.description}\n{json.dumps(schema.parameters)}\n\n"
        for schema in schemas
    )


def _results() -> str:
    """Of calls in a small workspace, without a sandbox."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(os.path.realpath(name))
        work = _workspace(place)
        env = {"PATH": os.environ["PATH"], "HOME": str(place)}
        common = {"env": env, "outputs": OutputFolder(place / "outputs")}
        context = ToolContext(
            workspace=work,
            outputs=common["outputs"],
            files=FileTracker(work, outputs=place / "outputs"),
            shell=Shell(cwd=str(work), scratch=place / "shell", **common),
            python=PythonInterpreter(cwd=str(work), scratch=place / "python", **common),
        )
        tools = ToolRegistry(TOOLS.all().values(), context)
        try:
            texts = [_called(tools, name, arguments, place) for name, arguments in CALLS]
        finally:
            context.shell.close()
            context.python.close()
    return "\n".join(texts)


def _workspace(place: Path) -> Path:
    work = place / "work"
    (work / "src").mkdir(parents=True)
    (place / "outputs").mkdir()
    (work / "src/a.py").write_text("def f():\n    x = 1\n    y = x\n  \treturn y\n")
    (work / "long.py").write_text("".join(f"value = {n}\n" for n in range(5_000)))
    (work / "wide.txt").write_text("a\n" + "w" * 5_000)
    (work / "data.blob").write_bytes(b"\0\1\2" * 100)
    return work


def _called(tools: ToolRegistry, name: str, arguments: dict[str, object], place: Path) -> str:
    raw = json.dumps(arguments)
    told = tools.execute(tools.parse(ToolCall("c", name, raw))).content
    told = told.replace(str(place), "PLACE")
    told = re.sub(r"\b(bash|python)-[0-9a-f]{6}-", r"\1-ID-", told)
    told = re.sub(r"\(\d+ s\)", "(N s)", told)
    lines = [line for line in told.split("\n") if line.strip(" ~^") or not line]
    if len(lines) > 30:
        cut = [line for line in lines[3:-3] if line.startswith("[")]
        lines[3:-3] = ["   (lines of the result)", *cut, "   (lines of the result)"]
    shown = "\n".join(map(_middle_out, lines))
    return f"## {name} {raw}\n{shown}\n"


def _middle_out(line: str) -> str:
    return line if len(line) < 500 else f"{line[:60]} … {line[-60:]}"


def _prose() -> str:
    files = [
        path
        for name in (*_SPEAKING, *_SPEAKING_ALONE)
        for path in (sorted((ROOT / name).rglob("*.py")) or [ROOT / name])
    ]
    texts = ((path, list(dict.fromkeys(_strings(path)))) for path in files)
    return "\n".join(
        f"## {path.relative_to(ROOT)}\n" + "".join(f"- {text}\n" for text in found)
        for path, found in texts
        if found
    )


def _strings(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    silent = {id(node) for part in _silent_parts(tree) for node in ast.walk(part)}
    inner = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    for node in ast.walk(tree):
        if id(node) in silent or id(node) in inner:
            continue
        if isinstance(node, ast.JoinedStr):
            text = "".join(_piece(part) for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if _PROSE.search(text):
            yield text.strip().replace("\n", "\\n")


def _silent_parts(tree: ast.AST) -> Iterator[ast.AST]:
    """Docstrings, regular expressions and what goes to logs."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node
        elif isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in _SILENT_CALLS:
                yield node


def _piece(part: ast.expr) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    assert isinstance(part, ast.FormattedValue)
    return f"{{{ast.unparse(part.value)}}}"


if __name__ == "__main__":
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(collected())
    print(f"written: {GOLDEN}")
