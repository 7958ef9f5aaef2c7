"""A session shown again, repeated, recorded, and gone on with by another model."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.test_run import FIX
from tests.conftest import LIMIT_S, Agent
from tests.recordings.make import HERE
from tests.scripted import bash, scripted
from tests.server import Call, Reply
from tests.test_recordings import event, result_of

RECORDING = HERE / "shell_state.jsonl"


def scratch(agent: Agent) -> list[Path]:
    """What is there of copies."""
    places = (agent.home / ".cache/agent/scratch", agent.home / "state/sessions.scrap")
    return [each for place in places if place.exists() for each in place.iterdir()]


def elsewhere(agent: Agent, tmp_path: Path) -> Agent:
    """On another machine, so to say: another home, no session, no model, no key."""
    home, workspace = tmp_path / "other-home", tmp_path / "other"
    home.mkdir()
    workspace.mkdir()
    return Agent(home, workspace)


def test_a_recorded_run_is_a_test_without_a_model(agent, serve, repository, tmp_path):
    agent.use(serve(FIX))
    recording = tmp_path / "fix.jsonl"
    done = agent("run", "--record", str(recording), "fix the failing test")
    assert done.returncode == 0, done.stderr
    assert recording.stat().st_mode & 0o777 == 0o600
    before = (repository / "tally.py").read_text()
    assert agent("replay", "--verify").stdout.endswith(
        "gives the same results: 5 calls repeated; files compared at 2 checkpoints\n"
    )
    other = elsewhere(agent, tmp_path)
    assert "5 calls repeated" in other("replay", str(recording), "--verify").stdout
    again = other("run", "-m", f"scripted/{recording}", "-C", str(repository), "fix it again")
    assert again.stdout == done.stdout, again.stderr
    assert (repository / "tally.py").read_text() == before
    assert not scratch(agent)
    assert not scratch(other)


@pytest.mark.campaign
def test_a_difference_is_told_with_its_event_and_a_diff(agent, tmp_path):
    lines = RECORDING.read_text().splitlines()
    changed = [line.replace('"two\\nthree\\n"', '"two\\nfour\\nfive\\n"') for line in lines]
    path = tmp_path / "changed.jsonl"
    path.write_text("\n".join(changed))
    done = agent("replay", str(path), "--verify")
    assert done.returncode == 1
    named = re.match(
        r"event (\d+) differs: \$ wc -l \*\.txt\n--- recorded\n\+\+\+ now\n", done.stdout
    )
    assert " 1 a.txt\n- 2 b.txt\n- 3 total\n+ 3 b.txt\n+ 4 total\n" in done.stdout
    told = json.loads(agent("replay", str(path), "--verify", "--json").stdout)
    assert (told["verified"], told["difference"]["event_id"]) == (False, int(named[1]))


@pytest.mark.campaign
def test_a_pattern_of_the_person_makes_it_no_difference(agent, tmp_path):
    lines = RECORDING.read_text()
    path = tmp_path / "changed.jsonl"
    path.write_text(lines.replace("hello you short", "hello you tall"))
    assert agent("replay", str(path), "--verify").returncode == 1
    assert agent("config", "set", "replay.normalisers", "[ 'you \\w+' ]").returncode == 0
    done = agent("replay", str(path), "--verify")
    assert done.returncode == 0, done.stdout


@pytest.mark.campaign
def test_a_fork_comes_out_as_it_did_from_its_beginning(agent, repository, tmp_path):
    """Its log begins in the folder of the original, of which its own name is longer."""
    model = scripted(
        tmp_path / "model",
        bash("pwd; echo one > one"),
        bash("git add one; git commit -qm one; git rev-parse HEAD; git log --oneline"),
        Reply("Done."),
        bash('pwd; echo "$PWD/one"'),
        Reply("Done again."),
    )
    assert agent("run", "-m", model, "begin").returncode == 0
    fork = repository.parent / f"{repository.name}-fork"
    assert agent("fork", "--dir", str(fork)).returncode == 0
    assert agent("resume", "--last", "-m", model, "go on", cwd=fork).returncode == 0
    done = agent("replay", "--verify", cwd=fork)
    assert "3 calls repeated" in done.stdout, done.stdout + done.stderr


@pytest.mark.campaign
def test_replies_are_played_in_order_whatever_is_condensed(agent, tmp_path):
    """A window with fewer replies in it is no reason to begin again."""
    steps = [bash(f"echo step {number}") for number in range(1, 21)]
    model = scripted(tmp_path / "model", *steps, Reply("Done."))
    short = ("--set", "memory.condenser=recent", "--set", "memory.max_events=20")
    for name in (model, f"scripted/{tmp_path}/twenty.jsonl"):
        record = ["--record", f"{tmp_path}/twenty.jsonl"] if name == model else []
        done = agent("run", "-m", name, "--max-turns", "30", *short, *record, "x")
        assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
        assert re.findall(r"\$ echo step (\d+)", done.stderr) == list(map(str, range(1, 21)))


@pytest.mark.campaign
def test_no_secret_gets_into_a_recording(agent, serve, tmp_path):
    secret, key = "hunter2-Zq81xLw09", "sk-ant-REDACTED" + "a1B2" * 8
    agent.env["MY_PASSWORD"] = secret
    (agent.workspace / "config.ini").write_text(f"password = {secret}\nkey = {key}\n")
    agent.use(serve([Reply("", [Call("bash", {"command": "cat config.ini"})]), Reply("Seen.")]))
    recording = tmp_path / "secret.jsonl"
    done = agent("run", "--record", str(recording), "look")
    assert "config.ini: secrets in it are masked" in done.stderr
    text = recording.read_text()
    assert secret not in text
    assert key not in text
    assert agent("replay", str(recording), "--verify").returncode == 0


def test_it_is_shown_as_it_went(agent, talk):
    terminal = talk("replay", str(RECORDING), "--speed", "50", columns=80, rows=200)
    assert terminal.ended() == 0
    rows = "\n".join(terminal.rows)
    assert "> Try the shell." in rows
    assert "greet you; ls -S · exit 0" in rows
    assert "All of it." in rows
    lines = [json.loads(line) for line in lines_of(RECORDING)]
    number = result_of(lines, "exit 3")
    first = event(lines, number)["cause"]
    part = agent("replay", str(RECORDING), "--from", str(first), "--to", str(number)).stdout
    assert "exit 3" in part
    assert "Try the shell." not in part


@pytest.mark.campaign
def test_step_by_step_until_the_person_has_seen_enough(talk):
    terminal = talk("replay", str(RECORDING), "--step", columns=80)
    terminal.until("event 2 · Enter continues")
    terminal.type("\r")
    terminal.until("> Try the shell.")
    terminal.until("event 6 · Enter continues")
    terminal.type("q\r")
    assert terminal.ended() == 0


def test_another_model_goes_on_from_an_event(agent, serve, repository):
    agent.use(serve(FIX))
    assert agent("run", "fix the failing test").returncode == 0
    fixed = (repository / "tally.py").read_text()
    server = serve([Reply("I would do nothing.")])
    other = replace(agent, env={}).use(server, "anthropic/claude-sonnet-5-5")
    done = other("fork", "-m", "anthropic/claude-sonnet-5-5", "--dir", "../again")
    assert (done.returncode, done.stdout) == (0, "I would do nothing.\n"), done.stderr
    asked = json.dumps(server.requests[0].body)
    assert "fix the failing test" in asked
    assert "I run the tests." not in asked
    assert (repository.parent / "again" / "tally.py").read_text() != fixed
    assert (repository / "tally.py").read_text() == fixed
    nothing = other("fork", agent.sessions[0].name, "-m", "x", "--at", "24")
    assert nothing.returncode == 2, nothing.stderr


@pytest.mark.campaign
def test_another_model_does_the_task_of_a_recording(agent, serve, tmp_path):
    server = serve([Reply("", [Call("bash", {"command": "./test.sh"})]), Reply("It fails.")])
    recording = str(HERE / "fix_a_bug.jsonl")
    done = agent.use(server)("replay", recording, "--model", agent.env["AGENT_MODEL"], "--dir", "a")
    assert (done.returncode, done.stdout) == (0, "It fails.\n"), done.stderr
    assert "The test fails. Fix it." in json.dumps(server.requests[0].body)
    assert "got 5" in json.dumps(server.requests[1].body)
    assert "bare" not in (agent.workspace / "a" / ".git" / "config").read_text()
    again = agent("replay", recording, "--model", "x/y", "--dir", "a")
    assert again.returncode == 2
    assert "already exists" in again.stderr


def lines_of(recording: Path) -> list[str]:
    return recording.read_text().splitlines()


BAD = {
    "is cut off": (lambda lines: [*lines[:20], lines[20][:50]], 1, "line 21: it is no JSON"),
    "ends early": (lambda lines: lines[:-3], 1, "it is cut off, with"),
    "has a hole": (lambda lines: lines[:9] + lines[10:], 1, "stands where event"),
    "is newer": (lambda lines: ['{"recording": 2}'], 1, "upgrade agent"),
    "is of no form": (
        lambda lines: [lines[0].replace('"recording": 1', '"recording": "1"'), *lines[1:]],
        1,
        "line 1: its first line is damaged",
    ),
    "is no text": (lambda lines: ["\ud800"], 1, "line 1: it is no UTF-8"),
    "has settings that are none": (
        lambda lines: [
            lines[0].replace('"sandbox.read": "all"', '"sandbox.read": "x"'),
            *lines[1:],
        ],
        1,
        "are not valid: sandbox.read = 'x'",
    ),
    "has a mode that is none": (
        lambda lines: [lines[0], '{"file": "x", "text": "", "mode": "rw"}', *lines[1:]],
        1,
        "line 2: 'rw' is no mode of a file",
    ),
    "is of a newer event": (
        lambda lines: [*lines[:-1], lines[-1].replace('"schema_version": ', '"schema_version": 9')],
        1,
        "newer version of agent",
    ),
    "is none": (lambda lines: ['{"id": 1}'], 1, "it is no recording"),
    "is empty": (lambda lines: [], 1, "it is no recording"),
    "leads out": (
        lambda lines: [lines[0], '{"file": "../x", "text": ""}', *lines[1:]],
        1,
        "line 2: '../x' is no path in the workspace",
    ),
    "puts a file into a file": (
        lambda lines: [lines[0], '{"file": "src", "text": ""}', *lines[1:]],
        1,
        "its files can't be written",
    ),
}


@pytest.mark.campaign
@pytest.mark.parametrize("how", BAD)
def test_a_recording_that(agent, tmp_path, how):
    spoil, code, told = BAD[how]
    path = tmp_path / "bad.jsonl"
    path.write_bytes("\n".join(spoil(lines_of(RECORDING))).encode(errors="surrogatepass"))
    done = agent("replay", str(path), "--verify")
    assert done.returncode == code, done.stderr
    assert told in done.stderr
    assert not scratch(agent)


@pytest.mark.campaign
def test_what_is_not_there_or_not_kept(agent, serve, tmp_path):
    assert agent("replay", "missing.jsonl", "--verify").returncode == 2
    assert agent("replay", "missing", "--verify").returncode == 2
    assert agent("run", "--record", "no/such/folder/x.jsonl", "x").returncode == 2
    agent.use(serve([Reply("", [Call("bash", {"command": "echo 1 > a"})]), Reply("Done.")]))
    assert agent("run", "x").returncode == 0
    for file in (agent.sessions[0] / "checkpoints" / "objects").rglob("*"):
        if file.is_file():
            file.unlink()
    done = agent("replay", "--verify")
    assert done.returncode == 1
    assert "checkpoint" in done.stderr
    assert not scratch(agent)


@pytest.mark.campaign
def test_replies_come_from_a_file_only(agent, tmp_path):
    """What is no file may never end."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        done = agent("run", "-m", f"scripted/{path}", "x")
        assert (done.returncode, "is not a file" in done.stderr) == (3, True), done.stderr


NO_USE = (
    (["--verify", "--to", "3"], "--to is for showing a session"),
    (["--verify", "--step"], "--step is for showing a session"),
    (["--save", "x.jsonl", "--from", "3"], "--from is for showing a session"),
    (["--dir", "x"], "--dir is for --model"),
    (["--json"], "--json is for --verify"),
    (["--verify", "--save", "x.jsonl"], "--verify and --save can't be combined"),
    (["--from", "12", "--to", "3"], "--to 3 is before --from 12"),
)


@pytest.mark.campaign
def test_options_that_would_have_no_effect_are_refused(agent):
    for options, told in NO_USE:
        done = agent("replay", str(RECORDING), *options)
        assert (done.returncode, told in done.stderr) == (2, True), done


@pytest.mark.campaign
def test_a_model_that_can_not_be_asked_leaves_no_copy_of_the_session(agent, tmp_path):
    model = scripted(tmp_path / "model", bash("echo 1 > a"), Reply("Done."))
    assert agent("run", "-m", model, "x").returncode == 0
    before = sorted(tmp_path.iterdir())
    for source in (["fork"], ["replay", str(RECORDING), "--dir", "../again"]):
        for name in ("nonsense", "scripted//no/such/file", "anthropic/claude-sonnet-5-5"):
            done = agent(*source, "--model", name)
            assert done.returncode == 3, done.stderr
    assert len(agent.sessions) == 1
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.campaign
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_no_copy_and_no_process(agent, tmp_path, number):
    path = tmp_path / "slow.jsonl"
    mark = f"4{os.getpid()}"
    slow = f"touch began; exec sleep {mark}"
    path.write_text(RECORDING.read_text().replace("no-such-program; echo $?", slow))
    deadline = time.monotonic() + LIMIT_S
    with agent.start("replay", str(path), "--verify") as process:
        # What is looked through may be moved at that moment, which `walk` bears.
        while not any("began" in found[2] for copy in scratch(agent) for found in os.walk(copy)):
            assert process.poll() is None
            assert time.monotonic() < deadline
        process.send_signal(number)
        assert process.wait() == 128 + number
    assert not scratch(agent)
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert f"sleep {mark}" not in running


@pytest.mark.campaign
def test_a_recording_of_a_stranger_changes_nothing_outside_its_copy(agent, tmp_path):
    """Whatever it says was allowed."""
    mine = agent.home / "mine.txt"
    mine.write_text("mine\n")
    command = {"command": "no-such-program; echo $?"}
    evil = {"command": f"echo gone > {mine}; echo $?"}
    wider = {**evil, "unsandboxed": True, "reason": "it was allowed"}
    path = tmp_path / "evil.jsonl"
    for said, done_then, code, told in (
        (evil, evil, 1, "no-such-program: command not found"),
        (wider, wider, 0, "commands beyond the sandbox (1)"),
        (wider, evil, 1, "the call is understood differently now"),
    ):
        lines = [json.loads(line) for line in lines_of(RECORDING)]
        for made in (line["event"] for line in lines if "event" in line):
            metadata = made.get("tool_call_metadata", {})
            if metadata.get("raw_arguments") == json.dumps(command):
                metadata["raw_arguments"] = json.dumps(said)
                made["args"] |= done_then
        path.write_text("\n".join(map(json.dumps, lines)))
        done = agent("replay", str(path), "--verify")
        assert done.returncode == code, done.stdout + done.stderr
        assert told in done.stdout
        assert mine.read_text() == "mine\n"


def test_a_recording_of_a_stranger_writes_nothing_outside_its_folder(agent, serve, tmp_path):
    """Neither through links, whenever they are made, nor by what the user's git runs later."""
    outside = tmp_path / "outside"
    (outside / "kept").mkdir(parents=True)
    (outside / "kept").chmod(0o705)
    (outside / "mine").write_text("mine\n")
    before = list(tree(outside))
    lines = lines_of(RECORDING)
    attacks = [
        [link("a", outside), link("a/new", "x"), gone("a")],
        [link("a", outside), folder("a/kept", "777"), gone("a")],
        [folder("a"), link("a", outside), text("a/mine", "theirs")],
        [link("b", ".git"), link("b/config", "../evil"), gone("b"), text("evil", "theirs")],
    ]
    for number, attack in enumerate(attacks):
        path = tmp_path / "evil.jsonl"
        path.write_text("\n".join([lines[0], *map(json.dumps, attack), *lines[1:]]))
        agent("replay", str(path), "--verify")
        agent.use(serve([Reply("Done.")]))
        agent("replay", str(path), "--model", agent.env["AGENT_MODEL"], "--dir", f"again{number}")
        assert list(tree(outside)) == before, attack
        assert not (agent.workspace / f"again{number}/.git/config").is_symlink()
    header = {**json.loads(lines[0]), "root": "/r", "workspace": "/r/a/b"}
    path.write_text("\n".join([json.dumps(header), json.dumps(link("a", outside)), *lines[1:]]))
    for how in (["--verify"], ["--model", agent.env["AGENT_MODEL"], "--dir", "elsewhere"]):
        assert "a/b lies below a, which is no folder" in agent("replay", str(path), *how).stderr
    assert list(tree(outside)) == before
    bare = "x/y.git"
    attack = [
        text(f"{bare}/HEAD", "ref: refs/heads/main\n"),
        text(f"{bare}/config", "[core]\n\tfsmonitor = touch ran\n\tworktree = ..\n"),
        *(folder(f"{bare}/{name}") for name in ("objects", "refs")),
        text(".GIT/hooks/post-checkout", "#!/bin/sh\ntouch ran", mode="755"),
        text(".git/rebase-merge/git-rebase-todo", "exec touch ran\n"),
    ]
    path.write_text("\n".join([lines[0], *map(json.dumps, attack), *lines[1:]]))
    done = agent.use(serve([Reply("Done.")]))(
        "replay", str(path), "--model", agent.env["AGENT_MODEL"], "--dir", "again"
    )
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    again = agent.workspace / "again"
    assert f"left out of the recording's files: {again / bare / 'config'}" in done.stderr
    written = [file.read_text(errors="replace") for file in again.rglob("*") if file.is_file()]
    said = [line for text in written for line in text.splitlines()]
    assert not [line for line in said if "touch ran" in line and not line.startswith("#")]


def tree(top: Path) -> Iterator[tuple[str, int, bytes | None]]:
    for path in sorted(top.rglob("*")):
        data = path.read_bytes() if path.is_file() else None
        yield str(path), path.lstat().st_mode, data


def link(path: str, to: object) -> dict:
    return {"file": path, "link": str(to)}


def folder(path: str, mode: str = "755") -> dict:
    return {"file": path, "folder": True, "mode": mode}


def text(path: str, content: str, mode: str = "644") -> dict:
    return {"file": path, "text": content, "mode": mode}


def gone(path: str) -> dict:
    return {"file": path, "gone": True}
