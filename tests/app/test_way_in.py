"""How far it is from the command line to the model: calls of ours, one frame each."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.scripted import scripted
from tests.server import Reply

_PROGRAM = """
import json, os, sys, traceback
from agentcli.llm.client import ModelClient

def complete(self, *arguments, **options):
    frames = [(f.filename, f.name) for f in traceback.extract_stack()[1:]]
    print(json.dumps([name for path, name in frames if "/agentcli/" in path]), flush=True)
    os._exit(0)

ModelClient.complete = complete
from agentcli.cli import main
main.main()
"""


def test_few_calls_lead_from_the_command_line_to_the_model(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AGENT_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("AGENT_CONFIG", str(tmp_path / "config.toml"))
    workspace = tmp_path / "work"
    workspace.mkdir()
    model = scripted(tmp_path / "script", Reply("done"))
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, "run", "-m", model, "--no-stdin", "do it"],
        cwd=workspace,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    frames = json.loads(done.stdout)
    assert frames[0] == "main"
    # `ModelClient.complete` itself is one more.
    assert len(frames) + 1 <= 12, frames
    assert frames.index("run_turn") <= 6, frames
