"""A batch on a Ray cluster on loopback is stopped and continued, loses a machine, loses all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

from agentcli.batch.ray_workers import probes, requirements_here, why_unfit
from tests.batch.ray_cluster import RayCluster
from tests.batch.tasks import play, results, task, write_tasks
from tests.conftest import LIMIT_S, Agent
from tests.server import ModelServer, Recorded, Reply
from tests.tables import each_row

TASKS = 200 if "EVERY_CASE" in os.environ else 60
NEEDS_S = 6 * LIMIT_S

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="no ray")


class Model:
    """A model that does the tasks. After `hold` it answers no request until `together` of them
    wait; then it calls `then` and answers all."""

    def __init__(self) -> None:
        self._asked = threading.Condition()
        self._before = 0
        self._waiting = 0
        self._together = 0
        self._then: Callable[[], object] = bool

    def hold(self, then: Callable[[], object], *, together: int, before: int) -> None:
        """Hold requests back once `before` of them have been answered."""
        with self._asked:
            self._then, self._before = then, before
            self._together, self._waiting = together, 0

    def play(self, request: Recorded) -> Reply:
        with self._asked:
            self._before -= 1
            if self._together and self._before < 0:
                self._waiting += 1
                if self._waiting == self._together:
                    self._then()
                    self._together = 0
                    self._asked.notify_all()
                self._asked.wait_for(lambda: not self._together, timeout=NEEDS_S)
        return play(request)


def ended(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """End the process by a signal, while another thread reads its output."""
    process.send_signal(number)
    process.wait(NEEDS_S)


def events(agent: Agent) -> dict[str, Counter[str]]:
    """Count the events of each kind, by session."""
    found = {}
    for session in agent.sessions:
        stored = [json.loads(path.read_bytes()) for path in (session / "events").glob("*.json")]
        found[session.name] = Counter(
            each.get("observation") or each.get("action") for each in stored
        )
    return found


@needs_ray
@pytest.mark.campaign
def test_a_lost_machine_and_a_stop_cost_no_task_and_do_nothing_twice(agent, tmp_path):
    tasks = [task(f"t{n}", workspace="work") for n in range(TASKS)]
    file = write_tasks(tmp_path / "tasks.jsonl", tasks)
    model = Model()
    with ModelServer(play=model.play, record=False) as server:
        agent.use(server)
        with RayCluster(agent.environment, (2, 2)) as cluster:
            out = tmp_path / "out"
            arguments = ("batch", str(file), "--out", str(out), "--ray", cluster.address)
            with agent.start(*arguments) as first:
                stop = partial(ended, first, signal.SIGINT)
                model.hold(stop, together=4, before=TASKS // 5)
                _, told = first.communicate(timeout=NEEDS_S)
            assert first.returncode == 130, told.decode()
            assert b"run the same command again for what is left" in told
            done_before = len(results(out))
            assert 0 < done_before < TASKS
            model.hold(partial(cluster.kill, 2), together=4, before=TASKS * 3 // 4)
            with agent.start(*arguments, "--json") as second:
                told, complaints = second.communicate(timeout=NEEDS_S)
    found = results(out)
    assert [each for each in found if each["status"] != "finished"] == [], complaints.decode()
    assert (second.returncode, json.loads(told)["outcomes"]) == (0, {"finished": TASKS})
    assert sorted(each["id"] for each in found) == sorted(each["id"] for each in tasks)
    # Each task is one session, and what was cut off went on in it.
    assert {each["session_id"] for each in found} == {path.name for path in agent.sessions}
    seen = events(agent)
    assert sum(kinds["session_started"] - 1 for kinds in seen.values()) >= 4 + 2
    assert all(kinds["run"] <= 2 for kinds in seen.values())
    # A command that was at work when it was lost may have been cut off, and was not run again.
    written = {each["id"]: out / "work" / each["id"] / f"{each['id']}.txt" for each in found}
    kept = {name: path.read_text() for name, path in written.items() if path.exists()}
    assert all(text == f"{name}\n" for name, text in kept.items())
    assert len(kept) >= TASKS - 2
    assert server.violations == []


@needs_ray
@pytest.mark.campaign
def test_a_batch_whose_cluster_is_lost_goes_on_here_by_the_same_database(
    agent, tmp_path, postgresql
):
    settings = agent.home / "settings.toml"
    settings.write_text(f'[sessions]\nstore = "{postgresql.database()}"\n')
    agent.env["AGENT_CONFIG"] = str(settings)
    tasks = [task(f"t{n}", workspace="work") for n in range(8)]
    file = write_tasks(tmp_path / "tasks.jsonl", tasks)
    arguments = ("batch", str(file), "--out", str(tmp_path / "out"))
    # Ray itself waits a minute for its head to come back.
    agent.env["RAY_gcs_rpc_server_reconnect_timeout_s"] = "3"
    model = Model()
    with ModelServer(play=model.play, record=False) as server:
        agent.use(server)
        with RayCluster(agent.environment, (1,)) as cluster:
            model.hold(partial(cluster.kill, 0), together=1, before=4)
            with agent.start(*arguments, "--ray", cluster.address) as lost:
                _, told = lost.communicate(timeout=NEEDS_S)
            assert lost.returncode == 1
            assert b"the Ray cluster is lost" in told
            assert b"Traceback" not in told
        done = agent(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    assert sorted(each["id"] for each in results(tmp_path / "out")) == [f"t{n}" for n in range(8)]
    listed = json.loads(agent("sessions", "list", "--all", "--json").stdout)
    assert {each["session_id"] for each in results(tmp_path / "out")} == {
        each["session_id"] for each in listed
    }
    assert [each["state"] for each in listed] == ["finished"] * 8
    assert not any((session / "events").exists() for session in agent.sessions)


@needs_ray
@each_row(
    "address, told",
    [
        ("127.0.0.1:1", "no Ray cluster answers at 127.0.0.1:1: "),
        ("127.0.0.1", "it is HOST:PORT of the cluster's head, or auto"),
        ("ray://127.0.0.1:10001", "ray:// addresses are not for this"),
    ],
)
def test_a_cluster_that_is_none_is_told_before_anything_is_begun(agent, tmp_path, address, told):
    file = write_tasks(tmp_path / "tasks.jsonl", [task("one", workspace="work")])
    done = agent("batch", str(file), "--out", str(tmp_path / "out"), "--ray", address)
    assert done.returncode in (2, 3), done.stderr
    assert told in done.stderr
    assert not (tmp_path / "out").exists()


def test_without_ray_it_is_said_how_to_get_it(agent, tmp_path):
    file = write_tasks(tmp_path / "tasks.jsonl", [task("one", workspace="work")])
    code = "import sys; sys.modules['ray'] = None; from agentcli.cli.main import main; main()"
    command = [sys.executable, "-c", code, "batch", str(file), "--out", "out", "--ray", "auto"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**agent.environment, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 3, done.stderr
    assert "Ray is not installed here" in done.stderr
    assert "pip install 'agentcli[ray]'" in done.stderr


def test_a_machine_is_fit_that_sees_the_same_folders_with_the_same_locks(tmp_path, monkeypatch):
    environ = {"AGENT_HOME": str(tmp_path / "home"), "AGENT_MODEL": "a/b", "OPENAI_API_KEY": "k"}
    monkeypatch.setenv("AGENT_CONFIG", str(tmp_path / "none.toml"))
    (tmp_path / ".cluster-of-one-that-was-killed").touch()
    with probes([tmp_path]) as tokens:
        (path,) = tokens
        given = requirements_here({**os.environ, **environ}, tokens)
        assert "OPENAI_API_KEY" not in given.environ
        assert why_unfit(given) == ""
        assert why_unfit(replace(given, tokens={path: "x"})).endswith(
            "all machines share is needed"
        )
        assert "another folder" in why_unfit(replace(given, tokens={f"{path}-else": "x"}))
        assert "and the batch is of 0.0.1" in why_unfit(replace(given, version="0.0.1"))
        assert "another store" in why_unfit(replace(given, store="x"))
        assert [each.name for each in tmp_path.iterdir()] == [Path(path).name]
    assert list(tmp_path.iterdir()) == []
    Path(path).write_text("token")
    unlocked = replace(given, tokens={path: "token"})
    assert "passes no locks on between machines" in why_unfit(unlocked)
