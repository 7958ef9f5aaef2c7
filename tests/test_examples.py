"""Every example in --help, the README and the docs is run, in a workspace with a session or two."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import LIMIT_S, Agent
from tests.emulated import Emulated
from tests.server import Call, ModelServer, Reply

ROOT = Path(__file__).parents[1]
COMMANDS = ROOT / "agentcli" / "cli" / "commands"
TRANSFER = COMMANDS.parent / "sessions" / "transfer.py"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LANGUAGES = ("", "sh", "console")
"""Of a block whose lines are examples. One in `bash` is a script, with a test of its own."""
IS_EXAMPLE = re.compile(r"(?:^|[|(;]\s*|do )agent(?:\s|$|\))")

AT_TERMINAL = {
    "agent": "Shift-Tab",
    "agent -c": "Shift-Tab",
    'agent "the login test fails, find out why"': "Shift-Tab",
    "agent -r parser -m sonnet": "Shift-Tab",
    "agent resume": "Esc",
    "agent rewind": "Esc",
    "agent fork": "Esc",
    "agent setup": "From which provider?",
}
"""Those that ask, with what is shown when they do."""
EXIT_CODES = {
    "agent models | grep": (0, 1),
    "agent doctor": (0, 3),
    "agent skills add": (0, 2),
    "agent trust": (0, 2, 3),
    "agent open": (1,),
    "agent run --require-evidence": (1,),
    "agent run --check": (1,),
    "agent run --output-schema": (0, 7),
    "agent resume --last --check": (1,),
    "agent mcp test": (2,),
    "agent run -m scripted/fix": (4,),
    "agent mcp remove": (2,),
    "agent bisect": (0, 1, 2),
    "agent run --tries": (1,),
    "agent resume parser --tries": (1,),
}
"""Where 0 is not all, by how the example begins: no such model, something missing, a skill
that is there, nothing to trust, no session that is open, no tool server, no further reply, no
evidence, a check that fails or isn't there, an answer that is no JSON."""
AN_EVENT = re.compile(r"(?<=--(?:at|to) )\d+|(?<=--event )\d+")
A_START = re.compile(r"(?<=--from )\d+")
AN_ID = re.compile(r"\b20\d{6}-\d{4,6}(?:-[0-9a-f]{4})?\b")
LEFT_OUT = {
    "agent run -m ollama": "a local server of that name",
    "agent skills add https": "from the network",
    "agent skills add git@": "from the network",
    "agent batch swe.jsonl --out /shared": "on a cluster; tried in tests/batch/test_ray.py",
    "agent sessions copy --all --": "another machine's database; tried in tests/sessions",
    "agent sessions copy parser --from": "a database with that session; tried in tests/sessions",
    "agent completion --install": "tried in tests/cli/test_completion.py, with each shell",
}


@dataclass(frozen=True)
class Example:
    place: str
    line: str

    @property
    def command(self) -> str:
        """Without the words beside it."""
        return re.sub(r"\s+#.*", "", self.line).strip()


def examples() -> Iterator[Example]:
    for path in (*sorted(COMMANDS.rglob("*.py")), TRANSFER):
        tree = ast.parse(path.read_text())
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        for text in filter(None, map(ast.get_docstring, (tree, *functions))):
            _, _, shown = text.partition("\n\nExamples:\n")
            for line in map(str.strip, shown.splitlines()):
                if not line.startswith("/"):  # typed in a conversation
                    yield Example(f"help of {path.name}", line)
    docs = (path for path in sorted((ROOT / "docs").glob("*.md")) if path.name != "screens.md")
    for path in (ROOT / "README.md", *docs):
        blocks = FENCE.findall(path.read_text())
        for text in (text for language, text in blocks if language in LANGUAGES):
            for line in text.replace("\\\n", " ").splitlines():
                if IS_EXAMPLE.search(line.strip()) and "<!--" not in line:
                    yield Example(path.name, line.strip())


EXAMPLES = sorted(
    {example.command: example for example in examples()}.values(), key=lambda each: each.command
)


def test_every_command_has_examples():
    without = []
    for path in sorted(COMMANDS.rglob("*.py")):
        if path.name != "__init__.py":
            module = importlib.import_module(f"agentcli.cli.commands.{path.stem}")
            group = module.COMMAND
            for part in group.values() if isinstance(group, dict) else [module]:
                if "\n\nExamples:\n  " not in (inspect.getdoc(part) or ""):
                    without.append(f"{path.name}: {part}")
    assert not without


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Iterator[tuple[Agent, Path]]:
    """A workspace under git with a session called parser, and a copy of it all."""
    base = tmp_path_factory.mktemp("examples")
    home, workspace = base / "in" / "home", base / "in" / "work"
    home.mkdir(parents=True)
    shutil.copytree(ROOT / "agentcli" / "demo" / "repository", workspace)
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "start"]):
        identity = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
        subprocess.run(["git", *identity, *command], cwd=workspace, check=True)
    agent = Agent(home, workspace)
    with _model() as server:
        agent.use(server)
        script = [
            Reply("I write it.", [Call("write", {"path": "new.py", "content": "x = 1\n"})]),
            Reply("", [Call("bash", {"command": "echo y = 2 > other.py"})]),
        ]
        with ModelServer(script) as first:
            made = Agent(home, workspace).use(first)
            task = ("run", "--name", "parser", "--yolo", "--max-turns", "2", "--no-summary")
            assert made(*task, "connection reset").returncode == 6
        bin_folder = base / "bin"
        bin_folder.mkdir()
        program = bin_folder / "agent"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m agentcli "$@"\n')
        program.chmod(0o755)
        agent.env |= {"PATH": f"{bin_folder}:{os.environ['PATH']}", "EDITOR": "true"}
        agent("sessions", "export", "parser", "-o", "parser.json")
        agent("replay", "parser", "--save", "parser.jsonl")
        shutil.copy(workspace / "parser.jsonl", workspace / "fix.jsonl")
        (workspace / "files.txt").write_text("tally.py\n")
        tasks = '{"id": "one", "prompt": "Look.", "repo": "."}\n'
        for name in ("tasks.jsonl", "swe.jsonl"):
            (workspace / name).write_text(tasks)
        (workspace / "tasks.yaml").write_text("- {id: one, prompt: Look., workspace: .}\n")
        (workspace / "rules.toml").write_text('[security]\nallow = ["bash(make:*)"]\n')
        (workspace / "answer.schema.json").write_text('{"type": "object"}')
        (base / "in" / "common").mkdir()
        for place in (home / "src/releasing", home / ".config/agent/skills/releasing"):
            place.mkdir(parents=True)
            (place / "SKILL.md").write_text("---\nname: releasing\n---\nTag with `make tag`.\n")
        shutil.copytree(base / "in", base / "kept", symlinks=True)
        yield agent, base


def _model() -> ModelServer:
    """What it says is no JSON."""
    return ModelServer([Reply("Done.")], loop=True, strict=False)


@pytest.mark.campaign
@pytest.mark.cases(len(EXAMPLES))
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.command[:60])
def test_an_example_does_what_it_says(world, example):
    agent, base = world
    if reason := next((why for c, why in LEFT_OUT.items() if example.command.startswith(c)), None):
        pytest.skip(reason)
    shutil.rmtree(base / "in")
    shutil.copytree(base / "kept", base / "in", symlinks=True)
    parser = next(path.name for path in agent.sessions)
    line = A_START.sub("2", AN_EVENT.sub("8", AN_ID.sub(parser, example.command)))
    if line in AT_TERMINAL:
        terminal = Emulated(
            [*agent.command, *shlex.split(line)[1:]], agent.workspace, agent.environment
        )
        terminal.until(AT_TERMINAL[line])
        terminal.close()
        return
    if set("|<>$;&(`").intersection(line):
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=agent.workspace,
            env=agent.environment,
            input="",
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
    else:
        done = agent(*shlex.split(line)[1:])
    allowed = next((codes for c, codes in EXIT_CODES.items() if line.startswith(c)), (0,))
    assert done.returncode in allowed, f"{example.place}: {line}\n{done.stderr}{done.stdout}"
    assert "Traceback" not in done.stderr
