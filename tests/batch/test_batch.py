"""The command line does many tasks."""

from __future__ import annotations

import json
import os
import subprocess
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.batch.batch import SharedBudget
from agentcli.batch.results import Ledger
from agentcli.batch.task import Report, Result
from agentcli.errors import SessionError
from tests.batch.tasks import play, results, task, write_tasks
from tests.conftest import git
from tests.emulated import Emulated
from tests.server import HttpError, ModelServer


def test_each_task_is_done_once_in_a_copy_of_its_own(agent, repository, tmp_path):
    git(repository, "tag", "v1")
    (repository / "later.txt").write_text("not in v1\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "later")
    plain = tmp_path / "plain"
    plain.mkdir()
    tasks = write_tasks(
        tmp_path / "tasks.jsonl",
        [
            task("one", repo="work", ref="v1", check="test ! -e later.txt && cat one.txt"),
            task("two", workspace="plain", check="echo oh; exit 3"),
            task("three", repo="work", limits={"max_turns": 1}),
        ],
    )
    out = tmp_path / "out"
    command = ("batch", str(tasks), "--out", str(out), "--workers", "2")
    with ModelServer(play=play) as server:
        agent.use(server)
        done = agent(*command, "--swe-bench", str(tmp_path / "swe.jsonl"))
        assert done.returncode == 1, done.stderr
        asked = len(server.requests)
        again = agent(*command, "--json")
        assert len(server.requests) == asked
    one, two, three = sorted(
        results(out), key=lambda each: ["one", "two", "three"].index(each["id"])
    )
    assert (one["status"], one["check"]["passed"], one["check"]["tail"]) == (
        "finished",
        True,
        "one",
    )
    assert (two["status"], two["check"]["exit_code"], two["check"]["tail"]) == ("finished", 3, "oh")
    assert three["status"] == "limit"
    assert one["answer"] == "one is written."
    # What was given stays as it is, and each patch brings it to what the task made of it.
    assert git(repository, "status", "--porcelain") == ""
    assert list(plain.iterdir()) == []
    git(repository, "checkout", "-q", "v1")
    subprocess.run(["git", "apply"], input=one["patch"], cwd=repository, text=True, check=True)
    assert (repository / "one.txt").read_text() == "one\n"
    log = git(out / "work/one", "log", "--format=%s", "--all")
    assert log == "start\n"
    # What is told in the end, for people and for programs.
    assert json.loads(again.stdout)["outcomes"] == {"passed": 1, "check failed": 1, "limit": 1}
    rows = [line.split()[:2] for line in done.stdout.splitlines()]
    assert rows[0] == ["outcome", "tasks"]
    assert rows[-1] == ["all", "3"]
    assert "| one | passed |" in (out / "summary.md").read_text()
    dots = ElementTree.parse(out / "outcome.svg").findall(".//{*}circle")
    assert len(dots) == 3
    predictions = [json.loads(line) for line in (tmp_path / "swe.jsonl").read_text().splitlines()]
    assert predictions[0] == {
        "instance_id": "one",
        "model_name_or_path": "openai-chat/gpt-5.5",
        "model_patch": one["patch"],
    }


def test_a_report_may_name_a_file_whose_name_is_not_utf8():
    error = os.fsdecode(b"th\xe9 can't be read")
    report = Report(task_id="one", result=Result(id="one", status="error", error=error))
    assert Report.of_line(report.as_line().encode()) == report


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"id": "a", "prompt": "x", "workspace": "."}\n{"id": "b", "pro', ":2: it is no JSON"),
        ('{"id": "a", "prompt": "x", "workspace": "."}\n' * 2, ":2: id: 'a' is the id of the task"),
        ('{"id": "a", "prompt": "x", "repo": "gone"}', ":1: repo: there is no folder"),
        ('{"id": "a", "prompt": "x", "repo": "work", "ref": "v9"}', ":1: ref: there is no"),
        ('{"id": "a", "prompt": "x", "repo": "plain"}', ":1: repo: "),
        ('{"id": "a", "prompt": "x", "workspace": ".", "modle": "m"}', ":1: modle: it is no field"),
        ('{"id": "a", "prompt": "x", "workspace": ".", "limits": {"max_turns": 0}}', "max_turns"),
        ('{"id": "../a", "prompt": " ", "workspace": "."}', ":1: id: "),
        ('{"id": "a", "prompt": "x"}', ":1: it needs workspace or repo"),
        ('{"id": "a", "id": "b", "prompt": "x"}', ":1: it is no JSON: a field is there twice: id"),
        ('{"id": "a", "prompt": "x\\ud800", "workspace": "."}', ":1: it has half of a character"),
        ('{"id": "a", "prompt": "x", "workspace": "a\\u0000b"}', ":1: workspace: it has a NUL"),
        ('{"id": "a", "prompt": "x", "workspace": ".", "limits": 3}', ":1: limits: it must be an"),
        ('{"id": "a", "prompt": "x", "workspace": ""}', ":1: workspace: it is empty"),
        ('{"id": "a", "prompt": "x", "repo": ".", "model": " "}', ":1: model: it is empty"),
        (
            '{"id": "a", "prompt": "x", "workspace": "."}\n{"id": "A", "prompt": "x", "repo": "."}',
            ":2: id: 'A' is the id of the task of line 1, too",
        ),
        ("", "has no task"),
        ("\ud800\udfff".encode("utf-16", "surrogatepass"), ":1: it is not UTF-8"),
    ],
)
def test_tasks_are_judged_whole_before_any_is_begun(agent, repository, tmp_path, text, told):
    (tmp_path / "plain").mkdir()
    file = tmp_path / "tasks.jsonl"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    agent.env |= {"AGENT_MODEL": "scripted/demo"}
    done = agent("batch", str(file), "--out", str(tmp_path / "out"))
    assert done.returncode == 2, done.stderr
    assert told in done.stderr
    assert done.stdout == ""
    assert agent.sessions == []
    assert not (tmp_path / "out" / "results.jsonl").exists()


def test_a_model_that_cant_be_asked_is_told_by_the_line_that_names_it(agent, tmp_path):
    tasks = [task("one", workspace="."), *(task(n, workspace=".", model="no/x") for n in "ab")]
    file = write_tasks(tmp_path / "tasks.jsonl", tasks)
    agent.env |= {"AGENT_MODEL": "scripted/demo"}
    done = agent("batch", str(file), "--out", str(tmp_path / "out"))
    assert (done.returncode, agent.sessions) == (3, [])
    assert f"agent: {file}:2: model: no provider for model 'no/x'" in done.stderr


@pytest.mark.campaign
def test_a_store_that_goes_away_ends_the_batch_and_costs_no_task(agent, tmp_path, postgresql):
    settings = agent.home / "settings.toml"
    settings.write_text(f'[sessions]\nstore = "{postgresql.database()}"\n')
    agent.env["AGENT_CONFIG"] = str(settings)
    file = write_tasks(tmp_path / "t.jsonl", [task(f"t{n}", workspace="work") for n in range(6)])
    arguments = ("batch", str(file), "--out", str(tmp_path / "out"), "--workers", "2")

    def gone(request):
        if len(server.requests) == 5:
            postgresql.stop()
        return play(request)

    with ModelServer(play=gone) as server:
        lost = agent.use(server)(*arguments)
        postgresql.start()
    assert lost.returncode == 1
    assert "agent: no session can be kept: " in lost.stderr
    before = results(tmp_path / "out")
    assert len(before) < 6
    assert {each["status"] for each in before} == {"finished"}
    with ModelServer(play=play) as server:
        done = agent.use(server)(*arguments)
    assert done.returncode == 0, done.stderr
    found = results(tmp_path / "out")
    assert (found[: len(before)], len(found)) == (before, 6)
    for each in found:
        written = tmp_path / "out" / "work" / each["id"] / f"{each['id']}.txt"
        assert written.read_text() == f"{each['id']}\n"


def test_a_list_in_yaml_is_as_good(agent, tmp_path):
    file = tmp_path / "tasks.yaml"
    file.write_text("- id: a\n  prompt: x\n  workspace: .\n- id: a\n  prompt: y\n  workspace: .\n")
    done = agent("batch", str(file), "--out", str(tmp_path / "out"))
    assert f"{file}:4: id: 'a' is the id of the task of line 1, too" in done.stderr
    file.write_text("- id: a\n  prompt: [x\n")
    assert ":3: it is no YAML" in agent("batch", str(file), "--out", "out").stderr


def test_where_nothing_can_be_written_is_told_before_anything_is_begun(agent, tmp_path):
    tasks = write_tasks(tmp_path / "tasks.jsonl", [task("one", workspace=".")])
    agent.env |= {"AGENT_MODEL": "scripted/demo"}
    for arguments in (["--out", str(tasks)], ["--out", "out", "--swe-bench", "gone/swe.jsonl"]):
        done = agent("batch", str(tasks), *arguments)
        assert (done.returncode, agent.sessions) == (2, [])
        assert f"agent: {' '.join(arguments[-2:])}" in done.stderr


@pytest.mark.campaign
def test_a_folder_that_is_in_use_or_another_s_is_refused(agent, tmp_path):
    tasks = write_tasks(tmp_path / "tasks.jsonl", [task("one", workspace="work")])
    agent.env |= {"AGENT_MODEL": "scripted/demo"}
    done = agent("batch", str(tasks), "--out", str(tmp_path))
    assert (done.returncode, "has other things in it" in done.stderr) == (2, True)
    out, seen = tmp_path / "out", []

    def meanwhile(request):
        seen.append(agent("batch", str(tasks), "--out", str(out)))
        return play(request)

    with ModelServer(play=meanwhile) as server:
        done = agent.use(server)("batch", str(tasks), "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert seen[0].returncode == 2
    assert "is in use by process" in seen[0].stderr


@pytest.mark.campaign
def test_a_result_that_cant_be_written_is_told_before_what_follows_from_it(agent, tmp_path):
    tasks = write_tasks(tmp_path / "tasks.jsonl", [task("one", workspace="work")])
    arguments = ("batch", str(tasks), "--out", str(tmp_path / "out"))
    in_the_way = [tmp_path / "out" / name for name in ("summary.md", "results.jsonl")]

    def meanwhile(request):
        for each in in_the_way:
            each.mkdir(exist_ok=True)
        return play(request)

    with ModelServer(play=meanwhile) as server:
        agent.use(server)
        told = agent(*arguments).stderr.splitlines()
        assert told[-2].startswith(f"agent: {in_the_way[1]} can't be written: ")
        in_the_way.pop().rmdir()
        done = agent(*arguments)
        assert (done.returncode, "the summary can't be written to" in done.stderr) == (1, True)
        in_the_way.pop().rmdir()
        assert agent(*arguments).returncode == 0
    assert len(results(tmp_path / "out")) == 1


@pytest.mark.campaign
def test_ctrl_c_leaves_what_can_be_gone_on_with(agent, tmp_path):
    tasks = write_tasks(tmp_path / "t.jsonl", [task(n, workspace="work") for n in ("one", "two")])
    arguments = ("batch", str(tasks), "--out", str(tmp_path / "out"), "--workers", "2")
    terminals: list[Emulated] = []

    def interrupted(request):
        if any(message["role"] == "tool" for message in request.body["messages"]):
            terminals[0].type("\x03")
            return play(request)
        return play(request)

    with ModelServer(play=interrupted) as server:
        agent.use(server)
        terminals.append(Emulated([*agent.command, *arguments], agent.workspace, agent.environment))
        terminals[0].until("run the same command again for what is left")
        terminals[0].close()
    with ModelServer(play=play) as server:
        done = agent.use(server)(*arguments)
    assert done.returncode == 0, done.stderr
    assert sorted(each["id"] for each in results(tmp_path / "out")) == ["one", "two"]
    for name in ("one", "two"):
        assert (tmp_path / f"out/work/{name}/{name}.txt").read_text() == f"{name}\n"


@pytest.mark.campaign
def test_errors_are_told_and_can_be_tried_again(agent, tmp_path):
    tasks = write_tasks(tmp_path / "t.jsonl", [task(n, workspace="work") for n in ("one", "two")])
    arguments = ("batch", str(tasks), "--out", str(tmp_path / "out"))

    def broken(request):
        wanted = "Write one." in json.dumps(request.body)
        return HttpError(401, message="no such key") if wanted else play(request)

    with ModelServer(play=broken) as server:
        done = agent.use(server)(*arguments)
    assert done.returncode == 1
    assert [each["status"] for each in results(tmp_path / "out")] == ["error", "finished"]
    assert "no such key" in done.stderr
    with ModelServer(play=play) as server:
        agent.use(server)
        assert agent(*arguments).returncode == 1
        done = agent(*arguments, "--retry-errors")
    assert done.returncode == 0, done.stderr
    assert sorted(each["status"] for each in results(tmp_path / "out")) == ["finished"] * 2


@pytest.mark.campaign
def test_the_money_for_all_is_never_passed(agent, tmp_path):
    tasks = write_tasks(tmp_path / "t.jsonl", [task(f"t{n}", workspace="work") for n in range(4)])
    arguments = ("batch", str(tasks), "--out", str(tmp_path / "out"), "--workers", "2")
    with ModelServer(play=play) as server:
        agent.use(server)
        done = agent(*arguments, "--max-budget-usd", "0.2")
        assert done.returncode == 6, done.stderr
        assert "the same command with a higher --max-budget-usd" in done.stderr
        spent = json.loads(agent("sessions", "list", "--all", "--json").stdout)
        assert 0 < sum(each["cost_usd"] for each in spent) <= 0.2
        done = agent(*arguments, "--max-budget-usd", "50", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outcomes"] == {"finished": 4}


@given(st.data())
def test_what_is_set_aside_and_spent_stays_within_the_total(data):
    total = data.draw(st.floats(0.001, 100))
    budget = SharedBudget(total)
    spent: dict[str, float] = {}
    granted: dict[str, float] = {}
    for _ in range(data.draw(st.integers(1, 12))):
        name = data.draw(st.sampled_from("abcdef"))
        if name in granted:
            most = granted.pop(name) - spent.get(name, 0.0)
            spent[name] = spent.get(name, 0.0) + data.draw(st.floats(0, 1)) * most
            budget.note(name, spent[name])
        else:
            own = data.draw(st.none() | st.floats(0.0, 10.0))
            granted[name] = budget.grant(name, own, data.draw(st.integers(1, 4)))
            if budget.is_spent(name):
                budget.release(name)
                del granted[name]
        assert sum({**spent, **granted}.values()) <= total * 1.000001


def test_a_last_line_that_was_cut_off_while_it_was_written_is_no_result(tmp_path):
    path = tmp_path / "results.jsonl"
    lines = [Result(id=name, status="finished").model_dump_json() for name in ("a", "b", "c")]
    path.write_text("\n".join(lines))
    ledger = Ledger(path)
    assert list(ledger.results) == ["a", "b"]
    assert path.read_text() == "\n".join(lines[:2]) + "\n"
    ledger.add(Result(id="c", status="error"))
    ledger.add(Result(id="a", status="error"))
    assert [each.status for each in Ledger(path).results.values()] == ["finished"] * 2 + ["error"]
    path.write_text("\n".join([lines[0], lines[1][:-1], lines[2]]))
    with pytest.raises(SessionError, match=r"results\.jsonl:2: this line is not a result"):
        Ledger(path)
