"""`agent skills`, and a skill of another agent's folder at work."""

from __future__ import annotations

import json
import os

import pytest

from tests.conftest import git
from tests.server import Call, Reply

ADDER = "---\nname: adder\ndescription: Adds numbers.\n---\nRun scripts/add.sh A B; see notes.md.\n"
SCRIPT = "#!/bin/sh\necho $(($1 + $2)) from $(dirname $0)\n"


def write_skill(folder, text=ADDER):
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text(text)
    (folder / "notes.md").write_text("Only whole numbers.\n")
    script = folder / "scripts/add.sh"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    return folder


@pytest.fixture
def source(tmp_path):
    """A git repository with two skills."""
    root = tmp_path / "their skills"
    write_skill(root / "skills/adder")
    (root / "skills/plain").mkdir()
    (root / "skills/plain/SKILL.md").write_text("---\ndescription: Text alone.\n---\nText.\n")
    git(tmp_path, "init", "-q", str(root))
    git(root, "add", ".")
    git(root, "commit", "-qm", "skills")
    return root


def test_skills_come_from_a_repository_and_go_again(agent, source):
    refused = agent("skills", "add", f"file://{source}".replace(" ", "%20"))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "adder: 3 files" in refused.stderr
    assert "script: scripts/add.sh" in refused.stderr
    assert agent("skills", "list").stdout == ""

    address = f"file://{source}".replace(" ", "%20")
    done = agent("skills", "add", address, "--path", "skills", "--only", "adder", "--yes", "--json")
    [added] = json.loads(done.stdout)
    folder = agent.home / ".config/agent/skills/adder"
    assert added == {"name": "adder", "path": str(folder), "scripts": ["scripts/add.sh"]}
    assert os.access(folder / "scripts/add.sh", os.X_OK)
    assert not (folder.parent / "plain").exists()
    assert "already exists" in agent("skills", "add", str(source), "--yes").stderr
    assert agent("skills", "add", str(source), "--yes", "--replace").returncode == 0

    [adder, plain] = json.loads(agent("skills", "list", "--json").stdout)
    assert (adder["from"], adder["scripts"]) == ("user", ["scripts/add.sh"])
    assert plain["name"] == "plain"
    shown = agent("skills", "show", "/Adder").stdout
    assert "script: scripts/add.sh\n" in shown
    assert "text: notes.md\n" in shown
    assert "Run scripts/add.sh A B" in shown
    assert "did you mean adder?" in agent("skills", "show", "ader").stderr

    assert agent("skills", "remove", "adder", "--yes").returncode == 0
    assert sorted(path.name for path in folder.parent.iterdir()) == ["plain"]
    assert "has no skill '../agent'" in agent("skills", "remove", "../agent", "--yes").stderr


def link_to_a_secret(folder):
    (folder / "id_rsa.md").symlink_to("/etc/passwd")


def link_to_a_folder(folder):
    (folder / "more").symlink_to("/etc")


def pipe(folder):
    os.mkfifo(folder / "pipe")


def odd_name(folder):
    (folder / "clear\x1b[2J.md").write_text("")


def damaged(folder):
    (folder / "SKILL.md").write_text("---\nname: [a\n---\n")


def way_out(folder):
    text = ADDER.replace("name: adder", "name: ../../../out")
    (folder / "SKILL.md").write_text(text)


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (link_to_a_secret, "id_rsa.md is a link, and links are not followed"),
        (link_to_a_folder, "more is a link"),
        (pipe, "pipe is neither a file nor a folder"),
        (odd_name, "has a file with an odd name"),
        (damaged, "damaged header"),
    ],
)
def test_what_is_no_plain_skill_is_refused_whole(agent, tmp_path, harm, why):
    harm(write_skill(tmp_path / "theirs/adder"))
    done = agent("skills", "add", str(tmp_path / "theirs"), "--yes")
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr
    assert "\x1b" not in done.stderr
    assert not (agent.home / ".config/agent/skills").exists()


def test_a_name_leads_nowhere_else(agent, tmp_path):
    way_out(write_skill(tmp_path / "adder"))
    done = agent("skills", "add", str(tmp_path / "adder"), "--yes")
    assert done.stdout == f"{agent.home}/.config/agent/skills/out\n"


def test_a_project_gets_skills_only_within_itself(agent, repository, tmp_path):
    theirs = write_skill(tmp_path / "adder")
    done = agent("skills", "add", str(theirs), "--project", "--yes")
    assert done.stdout == f"{repository}/.agents/skills/adder\n"
    assert "after: agent trust" in done.stderr
    assert "not trusted" in agent("skills", "list").stderr
    agent("trust", "--yes")
    assert json.loads(agent("skills", "list", "--json").stdout)[0]["from"] == "project"
    assert agent("skills", "remove", "adder", "--project", "--yes").returncode == 0
    (repository / ".agents/skills").rmdir()
    (repository / ".agents/skills").symlink_to(tmp_path)
    done = agent("skills", "add", str(theirs), "--project", "--yes")
    assert "leads out of the project" in done.stderr


def test_a_session_decides_nothing_about_skills(agent, tmp_path):
    agent.env["AGENT_SESSION_ID"] = "20261123-000000-abcd"
    done = agent("skills", "add", str(write_skill(tmp_path / "adder")), "--yes")
    assert done.returncode == 2
    assert "no session may add or remove skills" in done.stderr


@pytest.mark.parametrize("place", [".config/agent/skills", ".claude/skills", ".agents/skills"])
def test_scripts_and_texts_of_the_persons_skills_are_at_hand(agent, serve, repository, place):
    """Though the folder around them is hidden from everything that the agent runs."""
    folder = write_skill(agent.home / place / "adder")
    secret = folder.parents[1] / "credentials.json"
    secret.write_text("the-secret-of-the-person")
    run = f"~/{place}/adder/scripts/add.sh 20 22; cat ~/{place}/../credentials.json"
    server = serve(
        [
            Reply("", [Call("read", {"path": f"~/{place}/adder/SKILL.md"})]),
            Reply("", [Call("read", {"path": f"~/{place}/adder/notes.md"})]),
            Reply("", [Call("bash", {"command": run})]),
            Reply("", [Call("bash", {"command": f"echo > ~/{place}/adder/scripts/add.sh"})]),
            Reply("42"),
        ]
    )
    agent.use(server)
    done = agent("run", "add 20 and 22")
    assert (done.stdout, done.returncode) == ("42\n", 0), done.stderr
    assert f"- adder (~/{place}/adder/SKILL.md): Adds numbers." in str(server.requests[0].body)
    told = [str(request.body["messages"][-1]) for request in server.requests[1:]]
    assert "Run scripts/add.sh A B" in told[0]
    assert "Only whole numbers." in told[1]
    assert f"42 from {folder}/scripts" in told[2]
    if not place.startswith(".agents"):
        assert "the-secret-of-the-person" not in str(server.requests[-1].body)
    assert (folder / "scripts/add.sh").read_text() == SCRIPT


def test_a_called_skill_names_what_it_brings_along(agent, serve, repository):
    write_skill(agent.home / ".claude/skills/adder")
    server = serve([Reply("42")])
    agent.use(server)
    agent("run", "/adder")
    assert "[Beside its file: notes.md, scripts/add.sh]" in str(server.requests[0].body)
