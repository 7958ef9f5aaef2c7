"""The scripts of docs/ci.md, as they stand there, in repositories with a remote."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.conftest import LIMIT_S, Agent, git
from tests.server import Call, HttpError, ModelServer, Reply

DOC = (Path(__file__).parents[1] / "docs" / "ci.md").read_text()
SCRIPTS = {
    name: text
    for text in re.findall(r"^```bash\n(.*?)^```$", DOC, re.DOTALL | re.MULTILINE)
    for name in re.findall(r"^# (\S+\.sh)\b", text, re.MULTILINE)
}
CHECK = "python3 -B -m unittest -q"
FIX = {"path": "tally.py", "old_str": '"[a-z]+"', "new_str": '"[a-z]+(?:\'[a-z]+)*"'}

pytestmark = [
    pytest.mark.campaign,
    pytest.mark.skipif(shutil.which("jq") is None, reason="no jq"),
]


@dataclass
class Job:
    """A clone of `origin` on a runner, where `agent` is a program on the PATH."""

    agent: Agent
    out: Path

    def run(self, script: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        programs = self.out.parent / "bin"
        programs.mkdir(exist_ok=True)
        (programs / "agent").write_text(f'#!/bin/sh\nexec {sys.executable} -P -m agentcli "$@"\n')
        (programs / "agent").chmod(0o755)
        path = programs / script
        path.write_text(SCRIPTS[script])
        root = str(Path(__file__).parents[1])
        more = {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": root, **environ}
        return subprocess.run(
            ["bash", str(path), *arguments],
            cwd=self.agent.workspace,
            env={**self.agent.environment, "OUT": str(self.out), **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )

    def kept(self, name: str) -> dict[str, object]:
        return json.loads((self.out / name).read_text())


@pytest.fixture
def job(agent, repository, tmp_path) -> Job:
    origin = tmp_path / "origin.git"
    git(tmp_path, "clone", "-q", "--bare", str(repository), str(origin))
    git(repository, "remote", "add", "origin", str(origin))
    git(repository, "fetch", "-q")
    git(repository, "branch", "-q", "-m", "main")
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    return Job(agent, tmp_path / "out")


def change(job: Job, text: str) -> None:
    """What the pull request does, on a branch of its own."""
    git(job.agent.workspace, "switch", "-qc", "change")
    (job.agent.workspace / "limits.py").write_text(text)
    git(job.agent.workspace, "add", ".")
    git(job.agent.workspace, "commit", "-qm", "Add a limit")


def finish(status: str, answer: str) -> Reply:
    return Reply("", [Call("finish", {"status": status, "answer": answer})])


def test_a_review_says_by_its_exit_code_whether_something_stands_in_the_way(job, serve):
    change(job, "LIMIT = 10 / 0\n")
    blocked = "`limits.py:1` divides by zero."
    looking = Reply("I look at its users.", [Call("bash", {"command": "grep -rn LIMIT ."})])
    server = serve([looking, finish("failure", blocked), Reply("Fine.")], sessions=2)
    job.agent.use(server)
    done = job.run("review.sh")
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    assert (job.out / "review.md").read_text() == f"{blocked}\n"
    assert "+LIMIT = 10 / 0" in json.dumps(server.requests[0].body)
    assert re.search(r"review: failure after 2 steps, 0\.\d+ USD, 20\d+-\d+", done.stderr)
    assert job.run("review.sh", "origin/main", "HEAD").returncode == 0
    assert (job.out / "review.md").read_text() == "Fine.\n"


def test_a_review_writes_nothing(job, serve):
    change(job, "LIMIT = 10\n")
    touched = Reply("", [Call("bash", {"command": "touch new; git commit --allow-empty -m x"})])
    edited = Reply("", [Call("write", {"path": "limits.py", "content": ""})])
    job.agent.use(serve([touched, edited, finish("success", "Fine.")]))
    before = git(job.agent.workspace, "log", "--oneline")
    assert job.run("review.sh").returncode in (0, 5)
    assert git(job.agent.workspace, "status", "--porcelain") == ""
    assert git(job.agent.workspace, "log", "--oneline") == before


def test_what_is_no_review_is_never_taken_for_one(job, serve):
    unchanged = job.run("review.sh")
    assert (unchanged.returncode, unchanged.stderr) == (0, "review: HEAD changes nothing\n")
    assert job.run("review.sh", "no-such-branch").returncode == 2
    change(job, "LIMIT = 10\n")
    bare = job.run("review.sh", AGENT_MODEL="openai-chat/gpt-5.5", OPENAI_API_KEY="")
    assert (bare.returncode, job.kept("review.json")["exit_code"]) == (3, 3)
    job.agent.use(serve([HttpError(401)]))
    refused = job.run("review.sh")
    assert refused.returncode == job.kept("review.json")["exit_code"] != 1, refused.stderr
    same = Reply("", [Call("bash", {"command": "cat nothing"})])
    job.agent.use(serve([same] * 20, loop=True))
    circles = job.run("review.sh")
    assert (circles.returncode, job.kept("review.json")["reason"]) == (70, "stuck")


def test_the_budget_ends_a_review(job, serve):
    change(job, "LIMIT = 10\n")
    job.agent.use(serve([Reply("", [Call("glob", {"pattern": "*"})])] * 9, loop=True))
    done = job.run("review.sh", BUDGET_USD="0.02")
    assert done.returncode == 6, done.stderr
    assert job.kept("review.json")["reason"] == "max_budget"


def test_a_red_build_is_fixed_on_a_branch_in_as_many_runs_as_it_takes(job, serve):
    in_vain = Reply("Fixed, I think.")
    edit = Reply("The pattern drops apostrophes.", [Call("edit", FIX)])
    server = serve([in_vain, edit, Reply("Apostrophes belong to words.")])
    job.agent.use(server)
    start = git(job.agent.workspace, "rev-parse", "--short", "HEAD").strip()
    done = job.run("fix-build.sh", CHECK=CHECK)
    assert done.returncode == 0, done.stderr
    assert "fix-build: still red after run 1" in done.stderr
    first, second = json.dumps(server.requests[0].body), server.requests[1].body
    assert "FAILED (failures=" in first
    assert "It still fails" in json.dumps(second["messages"][-1])
    origin = job.out.parent / "origin.git"
    branch = f"agent/fix-{start}"
    shown = git(origin, "log", "-1", "--format=%an: %B", "--stat", branch)
    assert shown.startswith("agent: Fix the build\n\nApostrophes belong to words.\n")
    assert re.search(r"tally.py \| .*\n 1 file changed", shown)
    git(job.out.parent, "clone", "-q", "-b", branch, str(origin), "clone")
    checked = subprocess.run(CHECK.split(), cwd=job.out.parent / "clone", capture_output=True)
    assert checked.returncode == 0


def test_the_job_that_may_push_gets_the_fix_as_a_bundle(job, serve):
    job.agent.use(serve([Reply("", [Call("edit", FIX)]), Reply("Fixed.")]))
    assert job.run("fix-build.sh", CHECK=CHECK, REMOTE="", BRANCH="agent/fix").returncode == 0
    origin = job.out.parent / "origin.git"
    assert "agent/fix" not in git(origin, "branch", "--list", "agent/*")
    git(job.out.parent, "clone", "-q", str(origin), "pushing")
    pushing = job.out.parent / "pushing"
    git(
        pushing,
        "fetch",
        "-q",
        str(job.out / "fix.bundle"),
        "+refs/heads/agent/*:refs/heads/agent/*",
    )
    assert "tally.py" in git(pushing, "diff", "--stat", "HEAD", "agent/fix")


def test_a_build_that_is_not_fixed_pushes_nothing(job, serve):
    assert job.run("fix-build.sh", CHECK="true").returncode == 0
    job.agent.use(serve([finish("failure", "The server of the tests is gone.")]))
    gave_up = job.run("fix-build.sh", CHECK=CHECK)
    assert gave_up.returncode == 1
    assert "fix-build: failure: The server of the tests is gone." in gave_up.stderr
    (job.agent.workspace / "left.txt").write_text("")
    assert job.run("fix-build.sh", CHECK=CHECK).returncode == 2
    assert git(job.out.parent / "origin.git", "branch", "--list", "agent/*") == ""


def test_the_check_gets_no_key(job, serve):
    job.agent.use(ModelServer([]))
    done = job.run("fix-build.sh", CHECK='test -z "$OPENAI_API_KEY$ANTHROPIC_API_KEY"')
    assert done.returncode == 0, done.stderr


def test_workflows_check_out_nothing_of_a_pull_request_and_push_from_a_job_of_its_own():
    blocks = re.findall(r"^```yaml\n# (\S+)\n(.*?)^```$", DOC, re.DOTALL | re.MULTILINE)
    flows = {Path(name).name: yaml.safe_load(text) for name, text in blocks}
    assert flows.keys() == {"review.yml", ".gitlab-ci.yml", "fix-build.yml"}
    for name in ("review.yml", "fix-build.yml"):
        jobs = flows[name]["jobs"]
        assert flows[name]["permissions"] == {}
        for each in jobs.values():
            text = json.dumps(each)
            if "secrets." in text:
                assert set(each["permissions"].values()) == {"read"}
                assert '"persist-credentials": false' in text
    checkout = flows["review.yml"]["jobs"]["review"]["steps"][0]
    assert "ref" not in checkout["with"]
    for script in re.findall(r"ci/(\S+\.sh)", DOC):
        assert script in SCRIPTS
