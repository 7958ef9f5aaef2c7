"""What a run must come to: evidence of tests, a check of the person's, an answer that fits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from agentcli.sessions.session import read_session
from tests.cli.test_run import wait_for
from tests.conftest import LIMIT_S
from tests.server import Call, Reply

TESTS = "python3 -m unittest 2>&1"
MEND = Call("edit", {"path": "tally.py", "old_str": '"[a-z]+"', "new_str": '"[a-z]+(?:\'[a-z]+)*"'})
SCHEMA = {
    "type": "object",
    "properties": {"count": {"type": "integer"}},
    "required": ["count"],
    "additionalProperties": False,
}


def bash(command: str) -> Reply:
    return Reply("", [Call("bash", {"command": command})])


def result(done: subprocess.CompletedProcess[str]) -> dict:
    return json.loads(done.stdout.splitlines()[-1])


def events(agent) -> list[dict]:
    [folder] = agent.sessions
    return [json.loads(path.read_text()) for path in sorted((folder / "events").glob("*.json"))]


def verdicts(agent) -> list[tuple[str, bool]]:
    return [
        (event["extras"]["requirement"], event["extras"]["met"])
        for event in events(agent)
        if event.get("observation") == "requirement"
    ]


def asked(server, number: int) -> str:
    return json.dumps(server.requests[number].body)


# --- evidence -----------------------------------------------------------------------------------


def test_files_that_the_run_itself_writes_to_are_no_work_of_the_agent(agent, serve, repository):
    """As with `agent run --json … > run.jsonl 2> run.log` in the workspace."""
    made = bash(f"echo done > made.txt; {TESTS}")
    agent.use(serve([Reply("", [MEND]), made, bash("true"), Reply("Mended.")]))
    lines, log = repository / "run.jsonl", repository / "run.log"
    with lines.open("wb") as stdout, log.open("wb") as stderr:
        run = agent.start("run", "--json", "fix it", stdout=stdout, stderr=stderr)
        assert run.wait(timeout=LIMIT_S) == 0
    found = json.loads(lines.read_text().splitlines()[-1])["evidence"]
    assert (found["status"], found["files_changed"]) == ("passed", ["made.txt", "tally.py"])
    written = lines.read_text()
    assert agent("undo", "2").returncode == 0
    assert not (repository / "made.txt").exists()
    assert lines.read_text() == written


def test_a_run_says_what_its_log_proves(agent, serve, repository):
    agent.use(serve([bash(TESTS), Reply("", [MEND]), bash(TESTS), Reply("Mended.")]))
    done = agent("run", "--json", "fix it")
    found = result(done)["evidence"]
    assert "tests passed" in done.stderr
    assert [run["outcome"] for run in found["tests"]] == ["failed", "passed"]
    assert (found["status"], found["files_changed"]) == ("passed", ["tally.py"])
    shown = agent("sessions", "show").stdout
    assert "evidence: tests passed after the last change · 1 file changed" in shown
    stored = json.loads(agent("sessions", "show", "--json").stdout)
    assert stored["evidence"] == found
    agent("sessions", "export", "-o", "out.json")
    agent("sessions", "import", "out.json")
    imported = agent("sessions", "show", agent.sessions[-1].name, "--json")
    assert json.loads(imported.stdout)["evidence"] == found


def test_what_a_command_changed_makes_tests_old(agent, serve, repository):
    agent.use(serve([bash("true; " + TESTS), bash("echo x = 1 > new.py"), Reply("Done.")]))
    done = agent("run", "x")
    assert "tests not run since the last change" in done.stderr
    assert "files changed after the tests" in agent("sessions", "show").stdout


def test_without_evidence_the_model_is_reminded_once_and_the_run_fails(agent, serve, repository):
    server = serve([Reply("", [MEND]), Reply("Done."), Reply("Really done.")])
    agent.use(server)
    done = agent("run", "--require-evidence", "tests", "fix it")
    assert done.returncode == 1
    assert "there is no evidence that tests pass: no tests were run" in done.stderr
    assert done.stdout == "Really done.\n"
    assert "asked for evidence" in asked(server, 2)
    assert verdicts(agent) == [("tests", False), ("tests", False)]


def test_with_evidence_it_ends_well(agent, serve, repository):
    agent.use(serve([Reply("", [MEND]), Reply("Done."), bash(TESTS), Reply("They pass.")]))
    assert agent("run", "--require-evidence", "tests", "fix it").returncode == 0


# --- a check ------------------------------------------------------------------------------------


def test_a_failing_check_goes_back_to_the_model_until_it_passes(agent, serve, repository):
    server = serve([Reply("Done."), Reply("", [MEND]), Reply("Now it is.")])
    agent.use(server)
    done = agent("run", "--check", TESTS, "fix it")
    assert (done.returncode, done.stdout) == (0, "Now it is.\n")
    assert "FAILED (failures=1)" in asked(server, 1)
    assert verdicts(agent) == [("check", False), ("check", True)]
    assert "tests passed" in done.stderr


def test_after_its_retries_the_run_fails_and_can_be_judged_again(agent, serve, repository):
    agent.use(serve([Reply(f"Done {n}.") for n in range(3)]))
    done = agent("run", "--check", TESTS, "--check-retries", "2", "fix it")
    assert done.returncode == 1
    assert f"the check `{TESTS}` exited with 1, 3 times in all" in done.stderr
    source = agent.workspace / "tally.py"
    source.write_text(source.read_text().replace('"[a-z]+"', '"[a-z]+(?:\'[a-z]+)*"'))
    again = agent("resume", "--last")
    assert (again.returncode, again.stdout) == (0, "Done 2.\n")
    assert agent("resume", "--last").returncode == 2


def test_a_check_is_for_what_was_asked_with_it(agent, serve, repository):
    server = serve([Reply("Done."), Reply("Well."), Reply("Yes."), Reply("Yes.")])
    agent.use(server)
    agent("run", "--check", "false", "--check-retries", "1", "fix it")
    done = agent("resume", "--last", "thanks")
    assert (done.returncode, done.stdout) == (0, "Yes.\n")
    assert "agent: --check applied to the earlier work only" in done.stderr
    assert "the earlier work only" not in agent("resume", "--last", "thanks again").stderr
    late = agent("resume", "--last", "--check", "true")
    assert (late.returncode, late.stdout) == (0, "Yes.\n")
    assert verdicts(agent)[-1] == ("check", True)


def test_it_is_held_as_commands_are_and_has_a_time_limit(agent, serve):
    agent.use(serve([Reply("Done."), Reply("Done."), Reply("Done.")], sessions=2))
    outside = Path("/usr/outside-of-the-sandbox")
    escape = agent("run", "--check", f"touch {outside}", "--check-retries", "0", "x")
    assert (escape.returncode, outside.exists()) == (1, False)
    slow = ("--check", "sleep 600", "--set", "run.check_timeout_s=0.2", "--check-retries", "0")
    done = agent("run", *slow, "x")
    assert done.returncode == 1
    assert "was stopped after" in done.stderr
    assert not list(agent.home.glob("state/sessions/*/check"))


def test_cut_off_in_a_check_the_session_goes_on_with_it(agent, serve, repository):
    agent.use(serve([Reply("Done.")]))
    gate = agent.workspace / "gate"
    os.mkfifo(gate)
    begun = agent.workspace / "begun"
    check = ("--check", "touch begun; cat gate")
    process = agent.start("run", *check, "x", start_new_session=True)
    wait_for(begun, process)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130, told
    begun.unlink()
    killed = agent.start("resume", "--last", start_new_session=True)
    wait_for(begun, killed)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate(timeout=LIMIT_S)
    gate.unlink()
    gate.write_text("open")
    done = agent("resume", "--last")
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert verdicts(agent) == [("check", True)]
    assert not list(agent.home.glob("state/sessions/*/check"))


def test_a_check_that_is_no_command_stops_before_anything_starts(agent, serve):
    agent.use(serve())
    done = agent("run", "--check", "pytset -q", "x")
    assert (done.returncode, agent.sessions) == (2, [])
    assert "no command 'pytset'" in done.stderr
    assert agent("run", "--check", " ", "x").returncode == 2
    unclosed = agent("run", "--check", "echo 'x", "x")
    assert (unclosed.returncode, agent.sessions) == (2, [])
    assert "bash can't parse it: line 1" in unclosed.stderr
    agent.env["A_TOKEN"] = "s3cret-0123456789abcdef"
    secret = agent("run", "--check", "echo s3cret-0123456789abcdef", "x")
    assert (secret.returncode, agent.sessions) == (2, [])


def test_a_check_of_an_untrusted_project_or_session_is_not_run(agent, serve):
    agent.use(serve([Reply("Done."), Reply("Done."), Reply("Yes.")], sessions=3))
    settings = agent.workspace / ".agent" / "config.toml"
    settings.parent.mkdir()
    settings.write_text('[run]\ncheck = "touch ran"\n')
    done = agent("run", "x")
    assert "not trusted, so its run.check takes no effect" in done.stderr
    settings.unlink()
    agent("run", "--check", "touch ran; false", "--check-retries", "0", "x")
    (agent.workspace / "ran").unlink()
    agent("sessions", "export", "-o", "out.json")
    agent("sessions", "import", "out.json")
    agent("resume", agent.sessions[-1].name, "-C", ".", "go on")
    assert not (agent.workspace / "ran").exists()


# --- an answer that fits a schema ---------------------------------------------------------------


@pytest.fixture
def schema(agent) -> str:
    (agent.workspace / "schema.json").write_text(json.dumps(SCHEMA))
    return "schema.json"


@pytest.mark.parametrize(
    "answer", ['{"count": 3}', '```json\n{"count": 3}\n```', ' {"count": 3}\n']
)
def test_an_answer_that_fits_is_all_there_is_on_stdout(agent, serve, schema, answer):
    server = serve([Reply(answer)])
    done = agent.use(server)("run", "--output-schema", schema, "-o", "answer", "count them")
    assert (done.returncode, done.stdout) == (0, '{"count": 3}\n')
    assert (agent.workspace / "answer").read_text() == done.stdout
    assert "count them" in asked(server, 0)
    assert "additionalProperties" in asked(server, 0)


def test_one_that_does_not_is_mended_once(agent, serve, schema):
    finish = Call("finish", {"status": "success", "answer": '{"count": 4}'})
    server = serve([Reply('It is {"count": 4}.'), Reply("", [finish])])
    agent.use(server)
    done = agent("run", "--json", "--output-schema", schema, "count them")
    assert (done.returncode, result(done)["answer"]) == (0, '{"count": 4}')
    assert "not one JSON document" in asked(server, 1)


def test_one_that_still_does_not_is_no_answer(agent, serve, schema):
    server = serve(
        [Reply('{"count": "x", "y": 1}'), Reply('{"count": NaN}'), Reply('{"count": 5}')]
    )
    agent.use(server)
    done = agent("run", "--output-schema", schema, "count them")
    assert (done.returncode, done.stdout) == (7, "")
    assert "the answer does not fit the schema" in done.stderr
    assert "at $.count: 'x' is not of type 'integer'" in asked(server, 1)
    assert "('y' was unexpected)" in asked(server, 1)
    again = agent("resume", "--last", "--output-schema", schema, "try again")
    assert (again.returncode, again.stdout) == (0, '{"count": 5}\n')


def test_at_a_limit_there_is_no_answer_that_does_not_fit(agent, serve, schema):
    agent.use(serve([bash("true"), Reply("I was about to count.")]))
    done = agent("run", "--max-turns", "2", "--output-schema", schema, "count them")
    assert (done.returncode, done.stdout) == (6, "")


NO_SCHEMAS = {
    "{": "not JSON",
    "[1]": "a JSON Schema is an object",
    '{"type": "strin"}': "not a JSON Schema: type",
    '{"a": 1, "a": 2}': "'a' appears twice",
    '{"properties": {"x": {"$ref": "https://example.org/x.json"}}}': "outside it is fetched",
    '{"$ref": "#/$defs/x"}': "is not in the file",
    '{"$schema": "https://example.org/dialect"}': "an unknown dialect",
    '{"allOf": [{"$ref": "#"}]}': "refers to itself without end",
    "[" * 50_000: "nested too deeply",
    " " * 200_000: "longer than",
}


@pytest.mark.parametrize("text", NO_SCHEMAS, ids=lambda text: text[:30])
def test_a_file_that_is_no_schema_stops_before_anything_starts(agent, serve, text):
    agent.use(serve())
    (agent.workspace / "schema.json").write_text(text)
    done = agent("run", "--output-schema", "schema.json", "x")
    assert (done.returncode, agent.sessions) == (2, [])
    assert NO_SCHEMAS[text] in done.stderr
    assert agent("run", "--output-schema", "none.json", "x").returncode == 2


@pytest.mark.parametrize("flag", ["--check", "--require-evidence", "--output-schema"])
def test_a_conversation_comes_to_no_end_to_be_judged(agent, flag):
    done = agent(flag, "tests", "x")
    assert done.returncode == 2
    assert f"{flag} does not apply to a conversation" in done.stderr


def test_what_is_required_is_in_the_session(agent, serve, schema):
    agent.use(serve([Reply('{"count": 1}')]))
    agent("run", "--output-schema", schema, "--check", "true", "count them")
    state = read_session(agent.sessions[0]).state
    assert state.required["answer_schema"] == SCHEMA
    assert verdicts(agent) == [("check", True), ("answer", True)]
