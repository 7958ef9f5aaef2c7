"""`agent run` as people use it: at work in a repository, in pipes, and when things go wrong."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.conftest import LIMIT_S, MODELS
from tests.server import Call, HttpError, LengthStop, Reply, Truncated
from tests.workspace.test_images import png

FIX = [
    Reply("I run the tests.", [Call("bash", {"command": "python3 -m unittest 2>&1"})]),
    Reply("", [Call("read", {"path": "tally.py"}), Call("grep", {"pattern": "words"})]),
    Reply(
        "The pattern drops apostrophes.",
        [
            Call(
                "edit",
                {"path": "tally.py", "old_str": '"[a-z]+"', "new_str": '"[a-z]+(?:\'[a-z]+)*"'},
            ),
            Call("bash", {"command": "python3 -m unittest 2>&1"}),
        ],
        reasoning="An apostrophe between letters belongs to the word.",
    ),
    Reply("Fixed tally.py; all 3 tests pass."),
]


@pytest.mark.parametrize("api", MODELS)
@pytest.mark.parametrize("stream", [True, False])
def test_a_bug_is_found_fixed_and_verified(agent, serve, repository, api, stream):
    server = serve(FIX)
    agent.use(server, MODELS[api])
    provider = MODELS[api].split("/")[0]
    flags = [] if stream else ["--set", f"providers.{provider}.stream=false"]
    done = agent("run", "fix the failing test", *flags)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Fixed tally.py; all 3 tests pass.\n"
    check = subprocess.run(["python3", "-m", "unittest"], cwd=repository, capture_output=True)
    assert check.returncode == 0
    assert re.search("bubblewrap|landlock", done.stderr)
    assert len(server.requests) == len(FIX)


def test_a_diff_piped_in_reaches_the_model_and_only_the_answer_comes_out(agent, serve):
    server = serve([Reply("Looks right.")])
    agent.use(server)
    done = agent("run", "review this", stdin=b"diff --git a/x b/x\n+new line\n")
    assert done.stdout == "Looks right.\n"
    asked = json.dumps(server.requests[0].body)
    assert "review this" in asked
    assert "+new line" in asked


def test_the_task_itself_may_be_piped_in(agent, serve):
    server = serve([Reply("Two."), Reply("Two.")], sessions=2)
    agent.use(server)
    for arguments in (["run"], ["run", "-"]):
        assert agent(*arguments, stdin=b"What is 1 + 1?").stdout == "Two.\n"
    assert "1 + 1" in json.dumps(server.requests[0].body)


def test_no_stdin_leaves_the_lines_to_the_loop_around(agent, serve):
    agent.use(serve([Reply("ok"), Reply("ok")], sessions=2))
    run = " ".join([*agent.command, "run", "--no-stdin", "-q", '"$line"'])
    loop = subprocess.run(
        ["bash", "-c", f"while read -r line; do {run}; done"],
        input="one\ntwo\n",
        text=True,
        capture_output=True,
        env=agent.environment,
        cwd=agent.workspace,
        timeout=60,
    )
    assert loop.stdout == "ok\nok\n"


def test_a_pipe_that_never_closes_is_given_up(agent, serve):
    agent.use(serve([Reply("done")]))
    silent, keep_open = os.pipe()
    process = agent.start(
        "run", "x", "--set", "input.stdin_notice_s=0", "--set", "input.stdin_limit_s=0.05",
        stdin=silent,
    )  # fmt: skip
    out, err = process.communicate(timeout=60)
    os.close(keep_open)
    os.close(silent)
    assert process.returncode == 0
    assert out == b"done\n"
    assert b"waiting for stdin" in err
    assert b"going on without it" in err


def test_long_input_is_kept_as_a_file_beside_an_excerpt(agent, serve):
    server = serve([Reply("read")])
    agent.use(server)
    log = b"".join(b"line %d of the log\n" % number for number in range(300_000))
    assert len(log) > 5_000_000
    agent("run", "summarise", stdin=log)
    kept = agent.sessions[0] / "outputs" / "stdin.txt"
    assert kept.read_bytes() == log
    asked = server.requests[0].raw
    assert len(asked) < 200_000
    assert str(kept).encode() in asked
    assert b"line 0 of" in asked
    assert b"line 299999 of" in asked


def test_a_long_task_is_kept_as_a_file_beside_an_excerpt(agent, serve):
    server = serve([Reply("read")] * 2)
    agent.use(server)
    log = "".join(f"línea {number} of the log\n" for number in range(100_000)).encode()
    for number, arguments in enumerate((["run", "-"], ["resume", "--last", "-"])):
        assert agent(*arguments, stdin=log).returncode == 0
        kept = agent.sessions[0] / "outputs" / "stdin.txt"
        assert kept.read_bytes() == log
        asked = server.requests[number].raw
        assert len(asked) < 300_000
        assert "línea 99999 of".encode() in asked
        kept.unlink()


@pytest.mark.parametrize("arguments", [["run", "-"], ["run"], ["resume", "--last", "-"]])
def test_a_task_without_end_is_refused(agent, serve, arguments):
    agent.use(serve([Reply("Done.")]))
    agent("run", "hi")
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless:
        process = agent.start(*arguments, stdin=endless.stdout)
        assert endless.stdout is not None
        endless.stdout.close()
        _, told = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 2
    assert b"stdin is longer than 50,000,000 bytes" in told


@pytest.mark.campaign
def test_what_is_piped_in_costs_no_memory(agent, serve):
    agent.use(serve([Reply("Done.")] * 2, sessions=2))
    peaks = []
    for size in (1_000, 45_000_000):
        code, _, peak_mb = agent.measured("run", "look", stdin=b"a line of text\n" * (size // 15))
        assert code == 0
        peaks.append(peak_mb)
    assert peaks[1] < peaks[0] + 20


def test_binary_input_is_kept_as_a_file(agent, serve):
    server = serve([Reply("an image")])
    agent.use(server)
    data = bytes(range(256)) * 40
    assert agent("run", "what is this?", stdin=data).returncode == 0
    assert (agent.sessions[0] / "outputs" / "stdin.bin").read_bytes() == data
    assert "binary" in json.dumps(server.requests[0].body)


def test_binary_input_is_no_task(agent, serve):
    done = agent.use(serve())("run", stdin=b"\0\1\2\xff" * 100)
    assert done.returncode == 2
    assert "not text" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["run", ""], 2, "the task is empty"),
        (["run", "x", "-m", "sonett"], 3, "did you mean sonnet?"),
        (["run", "x", "-m", "opus"], 3, "anthropic/claude-opus-5-5"),
        (["run", "x", "-m", "nowhere/model"], 3, "no provider for model"),
        (["run", "x", "-C", "missing"], 3, "no folder missing"),
        (["run", "x", "--set", "agent.max_turn=3"], 3, "did you mean agent.max_turns?"),
        (["run", "x", "--set", "agent.max_turns=many"], 3, "agent.max_turns"),
        (["run", "x", "--output-format", "yaml"], 2, "it must be one of text, json"),
        (["run", "x", "--nonsense"], 2, "No such option"),
        (["resume", "nothing"], 2, "there is no session 'nothing'"),
        (["resume"], 2, "which session?"),
        (["resume", "--last"], 2, "there is no session in"),
        (["sessions", "show", "nothing"], 2, "there is no session 'nothing'"),
    ],
)
def test_what_cannot_be_done_is_said_in_words(agent, serve, arguments, code, said):
    done = agent.use(serve())(*arguments)
    assert done.returncode == code
    assert said in done.stderr
    assert done.stdout == ""
    assert agent.sessions == []


def test_without_a_key_three_ways_to_go_on_are_named(agent):
    done = agent("run", "x")
    assert done.returncode == 3
    for way in ("ANTHROPIC_API_KEY", "ollama", "agent demo"):
        assert way in done.stderr


def test_a_local_server_that_is_down_is_named_at_once(agent, serve):
    server = serve()
    agent.use(server)
    server.__exit__(None, None, None)
    done = agent("run", "x")
    assert done.returncode == 4
    assert f"nothing listens at {server.url}" in done.stderr
    assert "agent resume" in done.stderr


@pytest.mark.parametrize("api", MODELS)
def test_a_wrong_key_and_an_unknown_model_are_configuration_errors(agent, serve, api):
    agent.use(serve([], keys=["sk-right"]), MODELS[api])
    done = agent("run", "x")
    assert done.returncode == 3
    assert "401" in done.stderr
    agent.use(serve([], models=["other"]), MODELS[api])
    done = agent("run", "x")
    assert done.returncode == 3
    assert "404" in done.stderr
    assert "agent models" in done.stderr


@pytest.mark.parametrize("api", MODELS)
@pytest.mark.parametrize(
    "fault",
    [
        HttpError(503, "overloaded_error", "busy"),
        HttpError(429, "rate_limit_error", "slow down", {"retry-after": "0"}),
        Truncated(Reply("half", [Call("bash", {"command": "touch ran"})]), after=4),
    ],
    ids=["503", "429", "truncated"],
)
def test_a_passing_fault_is_retried_and_nothing_of_it_is_run(agent, serve, api, fault):
    server = serve([fault, Reply("done")])
    agent.use(server, MODELS[api])
    done = agent("run", "x", "--set", "llm.retry_base_s=0")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"
    assert not (agent.workspace / "ran").exists()
    assert len(server.requests) == 2


@pytest.mark.parametrize("api", MODELS)
def test_a_reply_cut_off_inside_a_call_is_not_run(agent, serve, api):
    cut = LengthStop(Reply("x", [Call("bash", {"command": "touch ran"})]))
    server = serve([cut, Reply("done in smaller pieces")])
    done = agent.use(server, MODELS[api])("run", "x")
    assert done.returncode == 0, done.stderr
    assert not (agent.workspace / "ran").exists()
    assert "was cut off" in json.dumps(server.requests[1].body)


def test_the_session_says_that_it_waits_for_a_rate_limit(agent, serve):
    agent.use(serve([HttpError(429, "rate_limit_error", "slow down"), Reply("done")]))
    lines = json_lines(agent("run", "x", "--json", "--set", "llm.retry_base_s=0").stdout)
    states = [line["state"] for line in lines if line["type"] == "state"]
    assert states == ["running", "rate_limited", "running", "finished"]


def test_a_server_that_asks_for_too_long_a_wait_is_left_for_later(agent, serve):
    busy = HttpError(429, "rate_limit_error", "slow down", {"retry-after": "4000"})
    done = agent.use(serve([busy]))("run", "x")
    assert done.returncode == 75
    assert "resume after" in done.stderr


def test_the_model_can_say_that_it_failed(agent, serve):
    script = [Reply("", [Call("finish", {"status": "failure", "answer": "No such function."})])]
    done = agent.use(serve(script))("run", "x")
    assert done.returncode == 1
    assert done.stdout == "No such function.\n"


def test_the_limit_on_turns_pauses_and_a_resume_goes_on(agent, serve):
    script = [Reply("", [Call("bash", {"command": "echo hi"})])] * 3 + [Reply("done")]
    agent.use(serve(script))
    done = agent("run", "x", "--max-turns", "2")
    assert done.returncode == 6
    assert "limit of 2" in done.stderr
    session = agent.sessions[0].name
    assert f"agent resume {session}" in done.stderr
    again = agent("resume", session[:-2], "--max-turns", "9")
    assert again.returncode == 0, again.stderr
    assert again.stdout == "done\n"


def test_the_answer_goes_to_a_file_too(agent, serve, tmp_path: Path):
    agent.use(serve([Reply("The answer.")]))
    agent("run", "x", "-o", str(tmp_path / "answer.txt"))
    assert (tmp_path / "answer.txt").read_text() == "The answer.\n"


def json_lines(output: str) -> list[dict]:
    lines = [json.loads(line) for line in output.splitlines()]
    assert [line["seq"] for line in lines] == list(range(len(lines)))
    assert [line["type"] == "result" for line in lines] == [False] * (len(lines) - 1) + [True]
    return lines


def test_json_lines_tell_the_whole_run(agent, serve, repository):
    lines = json_lines(agent.use(serve(FIX))("run", "fix it", "--json").stdout)
    kinds = {line["type"] for line in lines}
    assert {"init", "message", "tool_use", "tool_result", "state", "result"} <= kinds
    result = lines[-1]
    assert result["exit_code"] == 0
    assert result["answer"] == FIX[-1].text
    assert result["files_changed"] == ["tally.py"]
    assert result["usage"]["prompt_tokens"] > 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["run", "x", "-m", "nonsense"], 3),
        (["run", ""], 2),
        (["resume", "nothing"], 2),
        (["run", "x", "--set", "llm.retries=0"], 4),
    ],
)
def test_json_lines_end_with_a_result_when_a_run_fails(agent, serve, arguments, code):
    agent.use(serve([HttpError(500, "server_error", "broken")]))
    done = agent(*arguments, "--json")
    assert done.returncode == code
    result = json_lines(done.stdout)[-1]
    assert result["exit_code"] == code
    assert result["error"]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"]
)
def test_json_lines_end_with_a_result_on_signals(agent, serve, number, code):
    command = "echo begun > begun.tmp; mv begun.tmp begun; sleep 100"
    server = serve([Reply("", [Call("bash", {"command": command})]), Reply("went on")])
    process = agent.use(server).start("run", "x", "--json")
    lines = []
    for raw in process.stdout:
        lines.append(raw.decode())
        if json.loads(raw)["type"] == "tool_use":
            wait_for(agent.workspace / "begun", process)
            process.send_signal(number)
    assert process.wait(timeout=60) == code
    result = json_lines("".join(lines))[-1]
    assert result["exit_code"] == code
    again = agent("resume", "--last")
    assert again.stdout == "went on\n", again.stderr
    told = json.dumps(server.requests[-1].body).lower()
    # Stopped with its output, or in the moment before anything could have come from it.
    assert "interrupted" in told or "cut off while this was running" in told


def wait_for(path: Path, process: subprocess.Popen) -> None:
    """Until another process made `path`; gives up when that process has ended, or hangs."""
    deadline = time.monotonic() + LIMIT_S
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline


def test_a_reader_that_goes_away_ends_the_run(agent, serve):
    script = [Reply("", [Call("bash", {"command": "echo hi"})])] * 50
    agent.use(serve(script))
    process = agent.start("run", "x", "--json")
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == 141
    process.stderr.close()


def test_a_home_that_cannot_be_written_is_named(agent, serve):
    agent.use(serve([Reply("never")]))
    agent.env["AGENT_HOME"] = "/proc/no"
    done = agent("run", "x")
    assert done.returncode == 1
    assert "can't be written" in done.stderr
    assert "/proc/no/sessions" in done.stderr
    assert "AGENT_HOME" in done.stderr


def test_the_key_is_nowhere_but_in_its_header(agent, serve):
    script = [Reply("", [Call("bash", {"command": "env; echo $OPENAI_API_KEY"})]), Reply("ok")]
    server = serve(script)
    agent.use(server)
    secret = agent.env["OPENAI_API_KEY"]
    done = agent("run", f"my key is {secret}", "--json")
    assert secret not in done.stdout + done.stderr
    assert all(secret.encode() not in request.raw for request in server.requests)
    for path in agent.home.rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes(), path


def test_a_server_that_repeats_the_key_does_not_get_it_shown(agent, serve):
    agent.use(serve())
    secret = agent.env["OPENAI_API_KEY"]
    refusal = HttpError(401, "authentication_error", f"bad key: {secret}")
    agent.use(serve([refusal, refusal], sessions=2))
    for flags in ([], ["--json"]):
        done = agent("run", "x", *flags)
        assert done.returncode == 3
        assert "bad key: [redacted]" in done.stderr
        assert secret not in done.stdout + done.stderr


@pytest.mark.parametrize("api", MODELS)
def test_reasoning_travels_along_within_a_process_and_across(agent, serve, api):
    """The server gave each piece a signature and refuses one that does not come back as it was."""
    script = [
        Reply("Look.", [Call("bash", {"command": "echo 1"})], reasoning="First I look."),
        Reply("", [Call("bash", {"command": "echo 2"})], reasoning="Then again."),
        Reply("Done.", reasoning="That was it."),
        Reply("More.", reasoning="And on."),
    ]
    server = serve(script)
    agent.use(server, MODELS[api])
    assert agent("run", "x", "--set", "model.effort=high").returncode == 0
    assert agent("resume", "--last", "more", "--set", "model.effort=high").stdout == "More.\n"
    sent = server.requests[-1].raw
    if api == "anthropic_messages":
        assert sent.count(b'"signature"') == 3
    elif api == "responses":
        assert sent.count(b'"encrypted_content"') == 3


def test_calls_that_only_read_may_be_many_and_keep_their_order(agent, serve):
    for number in range(20):
        (agent.workspace / f"{number}.txt").write_text(f"content {number}")
    calls = [Call("read", {"path": f"{number}.txt"}) for number in range(20)]
    server = serve([Reply("", calls), Reply("ok")])
    assert agent.use(server)("run", "x").returncode == 0
    told = [m["content"] for m in server.requests[1].body["messages"] if m["role"] == "tool"]
    assert [f"content {number}" in text for number, text in enumerate(told)] == [True] * 20


@pytest.mark.parametrize("api", MODELS)
def test_images_reach_the_model(agent, serve, api):
    (agent.workspace / "plot.png").write_bytes(png())
    server = serve([Reply("", [Call("read", {"path": "plot.png"})]), Reply("A plot.")])
    assert agent.use(server, MODELS[api])("run", "x").stdout == "A plot.\n"
    assert b"iVBOR" in server.requests[1].raw


def test_a_long_session_slides_its_window_and_goes_on(agent, serve):
    """The prefix may break where the window slides, and nowhere else."""
    steps = [
        Reply(f"Step {number}.", [Call("bash", {"command": f"seq {number} 400"})])
        for number in range(30)
    ]
    server = serve([*steps, Reply("Done.")], sessions=8)
    slides = ("--set", "model.context_tokens=30000", "--set", "memory.condenser=window")
    done = agent.use(server)("run", "keep this in mind: blue", *slides)
    assert done.returncode == 0, done.stderr
    last = server.requests[-1].raw
    assert b"keep this in mind: blue" in last
    assert b"no longer shown" in last
    assert len(last) < 24_000 * 4
    assert 0 < len(server.prefix_breaks()) < 8


def test_a_provider_that_says_the_context_is_full_gets_a_shorter_one(agent, serve):
    full = HttpError(400, "invalid_request_error", "maximum context length is 8000 tokens")
    steps = [Reply("", [Call("bash", {"command": f"seq {first} 400"})]) for first in range(6)]
    server = serve([*steps, full, Reply("Done.")], sessions=3)
    done = agent.use(server)("run", "x")
    assert done.stdout == "Done.\n", done.stderr
    assert len(server.requests[-1].raw) < len(server.requests[-2].raw)
