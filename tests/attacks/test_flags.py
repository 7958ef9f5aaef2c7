"""No text that others give becomes a flag of a program that is started for it."""

from __future__ import annotations

import ast
import json
import sys
import time
from pathlib import Path

import pytest

import agentcli
from agentcli.git.mirrors import clone, mirror
from agentcli.workspace.ripgrep import Ripgrep

PACKAGE = Path(agentcli.__file__).parent
CALLS = frozenset({"run", "Popen", "call", "check_call", "check_output", "spawn"})
MODULES = frozenset({"subprocess", "pexpect"})
_STDIN = "all that it gets from others comes by stdin or a socket"
_OURS = "every word is ours"
_USERS = "the words are those of the user's own settings or environment"
_SHELL = "what is started is a shell or the layer around it; texts are its input"
STARTS = {
    "app/requirements.py": _STDIN,
    "app/recorder.py": "paths are in the environment",
    "batch/worker_processes.py": _STDIN,
    "browser/browser.py": _STDIN,
    "checkpoints/scan.py": "names follow -path, and begin with ./",
    "checkpoints/objects.py": "names of objects come by stdin, paths with them",
    "cli/commands/demo.py": _OURS,
    "cli/commands/doctor.py": _OURS,
    "cli/conversation/user_programs.py": "an editor gets a whole path, all else comes by stdin",
    "cli/terminal.py": _STDIN,
    "workspace/ignore.py": "a whole path follows -C, everything else is ours",
    "workspace/ripgrep.py": "see below",
    "workspace/search.py": _STDIN,
    "git/mirrors.py": "see below",
    "git/safe.py": "remotes follow --, everything else is ours",
    "hooks/runner.py": _USERS,
    "llm/registry.py": _USERS,
    "mcp/transports.py": _USERS,
    "sandbox/loopback.py": _STDIN,
    "sandbox/probe_driver.py": _OURS,
    "sandbox/selection.py": _SHELL,
    "shell/at_terminal.py": _SHELL,
    "shell/terminal.py": _SHELL,
    "web/pages.py": _STDIN,
}
"""Every file that starts a program, and why no text of others can be one of its flags."""
TEXTS = ["--help", "-x", "--pre=touch made", "--upload-pack=touch made", "@file", "", "a\nb"]


def test_every_place_that_starts_a_program_says_why_nothing_becomes_a_flag():
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if any(map(_starts, ast.walk(ast.parse(path.read_text()))))
    }
    assert found == STARTS.keys()


def _starts(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    module = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
    of_os = module == "os" and node.func.attr.startswith(("exec", "posix_spawn", "system", "popen"))
    by_loop = node.func.attr.startswith("create_subprocess")
    return of_os or by_loop or (module in MODULES and node.func.attr in CALLS)


@pytest.fixture
def program(tmp_path) -> Path:
    """A program that writes down its arguments."""
    path = tmp_path / "program"
    words = f"open({str(tmp_path / 'words')!r}, 'w').write(json.dumps(sys.argv[1:]))"
    path.write_text(f"#!{sys.executable} -S\nimport json, sys\n{words}\n")
    path.chmod(0o700)
    return path


@pytest.mark.parametrize("text", TEXTS)
def test_texts_come_after_the_flags(program, tmp_path, text):
    def is_behind() -> bool:
        words = json.loads((tmp_path / "words").read_text())
        return text in words[words.index("--") :] and text not in words[: words.index("--")]

    clone(str(program), text, tmp_path / "to", {}, ref=text)
    assert is_behind()
    (tmp_path / "kept").mkdir()
    mirror(str(program), text, tmp_path / "kept", {})
    assert is_behind()
    search = Ripgrep(str(program), text, time.monotonic() + 60, ignore_case=False, across=False)
    search.matching_files(["./folder"], text, others=False)
    assert is_behind()
