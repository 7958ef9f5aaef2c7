"""What runs unasked when nobody can be asked, and how a run ends that needed somebody."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from agentcli.errors import ConfigError
from agentcli.events.actions import CmdRunAction, FileEditAction, GlobAction
from agentcli.events.observations import DecisionObservation
from agentcli.security.policy.rules import SavedRules, parse_rule
from agentcli.sessions.session import SessionLog
from agentcli.workspace import private
from tests.cli.test_terminal import PROMPT, ended
from tests.conftest import PYTHON, git
from tests.scripted import bash
from tests.server import Call, Reply
from tests.sessions.test_index import said, started

WANTS_NETWORK = {"command": "touch fetched", "network": True, "reason": "to fetch a package"}


def test_a_run_that_needed_approval_exits_5_and_says_what_for(agent, serve):
    server = serve([Reply("", [Call("bash", WANTS_NETWORK)]), Reply("I could not fetch it.")])
    done = agent.use(server)("run", "x")
    assert done.returncode == 5
    assert "approval was needed" in done.stderr
    assert "--allow" in done.stderr
    assert "Not allowed" in str(server.requests[-1].body)
    assert "say at the end what it was needed for" in str(server.requests[-1].body)


def test_a_refused_call_that_the_model_worked_around_does_no_harm(agent, serve):
    calls = [Call("bash", WANTS_NETWORK), Call("bash", {"command": "echo done another way"})]
    agent.use(serve([Reply("", calls[:1]), Reply("", calls[1:]), Reply("Done.")]))
    agent.ok("run", "x")


def test_what_was_not_run_stays_so_when_the_session_is_resumed(agent, serve):
    calls = [
        Call("bash", WANTS_NETWORK),
        Call("bash", {"command": "touch second"}),
        Call("finish", {"message": "done"}),
    ]
    server = serve([Reply("", calls), Reply("No network."), Reply("Still none.")], sessions=2)
    assert agent.use(server)("run", "x").returncode == 5
    agent.ok("resume", "--last", "go on")
    assert not (agent.workspace / "second").exists()
    told = server.results
    assert told[0].startswith("Not allowed: it wants network access; ")
    assert told[0].endswith(
        "Nothing of this call was run. Do without it, and say at the end what it was needed for."
    )
    assert told[1:] == ["Not run: the call before it was refused."] * 2
    shown = agent("sessions", "show").stdout
    assert shown.count("not run: the call before it was refused") == 2, shown


def test_a_refusal_quotes_its_part_and_offers_the_rest(agent, serve):
    data = agent.workspace / "model.bin"
    with data.open("wb") as file:
        file.truncate(60_000_000)
    command = "make clean; rm model.bin; git status"
    server = serve([Reply("", [Call("bash", {"command": command})]), Reply("Not then.")])
    assert agent.use(server)("run", "x").returncode == 5
    told = str(server.requests[-1].body)
    assert "it would delete model.bin, which no checkpoint holds (`rm model.bin`)" in told
    assert "Nothing of this call was run. Send the rest without it" in told
    assert data.exists()


def test_what_throws_work_away_runs_unasked_and_is_undone(agent, serve, repository):
    """In a repository, beside a large folder that tools make and large data that git ignores."""
    (repository / "mine").mkdir()
    (repository / "mine" / "notes").write_text("mine")
    (repository / "README.md").write_text("not committed")
    git(repository, "branch", "try")
    for name in ("node_modules/x", "data/x"):
        (repository / name).parent.mkdir()
        with (repository / name).open("wb") as file:
            file.truncate(300_000_000)
    (repository / ".gitignore").write_text("node_modules/\ndata/\n")
    lines = [
        "git reset --hard",
        "git branch -D try; sleep 100 & kill -9 $!",
        "rm -r mine node_modules",
        "python3 - <<'EOF'\nopen('x.sql', 'w').write('DROP TABLE x')\nEOF\nrm -rf data",
    ]
    calls = [Call("bash", {"command": line}) for line in lines]
    server = serve([*(Reply("", [call]) for call in calls), Reply("Done.")])
    assert agent.use(server)("run", "x").returncode == 5
    told = server.results
    assert [text for text in told[:3] if "Not allowed" in text] == []
    assert "it would delete data, which no checkpoint holds (`rm -rf data`)" in told[3]
    assert (repository / "data/x").exists()
    assert not (repository / "mine").exists()
    assert not (repository / "x.sql").exists()
    agent.ok("undo", "3")
    assert (repository / "mine" / "notes").read_text() == "mine"
    assert (repository / "README.md").read_text() == "not committed"
    assert "try" in git(repository, "branch")


def test_an_allowed_command_runs(agent, serve):
    server = serve([Reply("", [Call("bash", WANTS_NETWORK)]), Reply("Done.")])
    agent.use(server).ok("run", "--allow", "bash(touch:*)", "x")
    assert "Not allowed" not in str(server.requests[-1].body)


def test_plan_mode_reads_and_changes_nothing(agent, serve):
    calls = [
        Call("bash", {"command": "ls"}),
        Call("bash", {"command": "touch made"}),
        Call("write", {"path": "made", "content": "x"}),
        Call("python", {"code": "open('made', 'w')"}),
    ]
    server = serve([*(Reply("", [call]) for call in calls), Reply("The plan.")])
    done = agent.use(server).ok("run", "--approval", "plan", *PYTHON, "x")
    assert done.stdout == "The plan.\n"
    assert not (agent.workspace / "made").exists()
    assert str(server.requests[-1].body).count("Not allowed") == 3


def test_a_denied_command_never_runs(agent, serve):
    call = Call("bash", {"command": "cd . && touch made"})
    agent.use(serve([Reply("", [call]), Reply("Done.")]))
    agent("run", "--yolo", "--deny", "bash(touch:*)", "x")
    assert not (agent.workspace / "made").exists()


def test_without_a_sandbox_everything_but_reading_needs_approval(agent, serve):
    calls = [
        Call("bash", {"command": "cat seen"}),
        Call("write", {"path": "made", "content": "x"}),
        Call("bash", {"command": "touch made"}),
    ]
    (agent.workspace / "seen").write_text("what is there")
    server = serve([Reply("", calls), Reply("Done.")])
    assert agent.use(server)("run", "--no-sandbox", "x").returncode == 5
    assert "what is there" in str(server.requests[-1].body)
    assert not (agent.workspace / "made").exists()


@pytest.mark.parametrize("flags", [["--yolo"], ["--yolo", "--no-sandbox"]])
def test_hard_blocks_hold_in_every_mode(agent, serve, flags):
    (agent.home / "precious").write_text("x")
    calls = [
        Call("bash", {"command": f"rm -rf {agent.home}"}),
        Call("bash", {"command": "rm -rf $HOME/"}),
        Call("bash", {"command": "sh -c 'cd && rm -rf ./*'"}),
        Call("write", {"path": str(agent.home / "state" / "x"), "content": "x"}),
    ]
    server = serve([Reply("", [call]) for call in calls] + [Reply("Done.")])
    agent.use(server)("run", *flags, "x")
    assert (agent.home / "precious").exists()
    assert str(server.requests[-1].body).count("Not allowed") == len(calls)


def test_a_model_may_judge_the_risk(agent, serve):
    steps = [bash("touch made")]
    server = serve([*steps, Reply("high: it is not asked for"), Reply("Then not.")], sessions=3)
    judged = ("--set", 'security.analyzers=["judge"]', "--set", "security.confirm=confirm_risky")
    done = agent.use(server)("run", *judged, "x")
    assert done.returncode == 5, done.stderr
    assert "it is not asked for" in done.stderr
    assert not (agent.workspace / "made").exists()
    assert "touch made" in str(server.requests[1].body["messages"])
    cost = json.loads(agent("sessions", "show", "--cost", "--json").stdout)
    assert "judge" in str(cost)


TOUCH = {"command": "touch made"}


def rule(text: str):
    return parse_rule(text, "allow", "here")


def spoil(folder: Path, how: str) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    if how == "no folder":
        folder.write_text("")
        return
    folder.mkdir()
    if how == "a folder":
        (folder / "rules").mkdir()
    elif how == "of others":
        (folder / "rules").write_text("")
        (folder / "rules").chmod(0o666)
    else:
        (folder / "rules").symlink_to("/proc/agent/rules")


@pytest.mark.parametrize("how", ["no folder", "a folder", "of others", "no such place"])
def test_an_answer_counts_where_the_rule_can_not_be_saved(agent, serve, at_terminal, how):
    spoil(agent.home / ".config/agent", how)
    script = [Reply("", [Call("bash", TOUCH)]), Reply("", [Call("bash", TOUCH)]), Reply("Done.")]
    server = agent.asks(serve(script))
    child = at_terminal("run", "--no-sandbox", "x")
    child.expect(PROMPT)
    child.sendline("a")
    shown = ended(child)
    assert child.exitstatus == 0, shown
    assert "applies to this session only" in " ".join(shown.split())
    assert (agent.workspace / "made").exists()
    assert "made" not in "".join(p.name for p in (agent.home / ".config").rglob("rules/*"))
    assert len(server.requests) == 3


def test_many_writers_lose_no_rule(tmp_path):
    program = (
        "import sys; from pathlib import Path\n"
        "from agentcli.security.policy.rules import parse_rule\n"
        "from agentcli.security.policy.rules import SavedRules\n"
        "for number in range(20):\n"
        "    text = f'bash(make {sys.argv[2]}-{number})'\n"
        "    SavedRules(Path(sys.argv[1])).add(Path('/a'), [parse_rule(text, 'allow', '')])\n"
    )
    path = tmp_path / "settings" / "rules"
    arguments = [sys.executable, "-c", program, str(path)]
    writers = [subprocess.Popen([*arguments, str(number)]) for number in range(4)]
    assert [writer.wait() for writer in writers] == [0] * 4
    assert len(SavedRules(path).load(Path("/a"), {"bash": "command"})) == 80


@pytest.mark.campaign
def test_one_writer_is_killed_over_and_over_and_no_rule_is_lost(tmp_path):
    path = tmp_path / "rules"
    program = (
        "import os, sys; from pathlib import Path\n"
        "from agentcli.workspace import private\n"
        "from agentcli.security.policy.rules import parse_rule\n"
        "from agentcli.security.policy.rules import SavedRules\n"
        "path, number, place = Path(sys.argv[1]), sys.argv[2], sys.argv[3]\n"
        "def killed(*arguments, **named): os.kill(os.getpid(), 9)\n"
        "if place: setattr(os, place, killed)\n"
        "SavedRules(path).add(Path('/a'), [parse_rule(f'bash(make {number})', 'allow', '')])\n"
    )
    places = ["", "fsync", "", "replace", "", "fchmod", "", "rename"]
    for number, place in enumerate(places):
        subprocess.run([sys.executable, "-c", program, str(path), str(number), place])
    kept = {str(each) for each in SavedRules(path).load(Path("/a"), {"bash": "command"})}
    assert kept >= {f"bash(make {n})" for n, place in enumerate(places) if not place}
    assert sorted(p.name for p in tmp_path.iterdir()) in (
        [".rules.new", "rules", "rules.lock"],
        ["rules", "rules.lock"],
    )


def test_who_does_not_let_go_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(private, "_LOCK_S", 0.0)
    saved = SavedRules(tmp_path / "rules")
    with private.locked(saved.path), pytest.raises(ConfigError, match="keeps it locked"):
        saved.add(Path("/a"), [rule("bash(make)")])


def test_mode_links_comments_and_what_is_no_text_stay(tmp_path):
    real = tmp_path / "dotfiles" / "rules"
    real.parent.mkdir()
    real.write_bytes(b"# mine\r\n\xff\nallow bash(make) in /a")
    real.chmod(0o640)
    saved = SavedRules(tmp_path / "rules")
    saved.path.symlink_to(real)
    saved.add(Path("/a"), [rule("bash(make all)")])
    assert saved.path.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert real.read_bytes().splitlines() == [
        *(b"# mine", b"\xff", b"allow bash(make) in /a", b"allow bash(make all) in /a")
    ]


def test_out_of_the_sandbox_only_the_very_command_is_offered_and_kept(agent, serve, at_terminal):
    rules = agent.home / ".config/agent/rules"
    rules.parent.mkdir(parents=True)
    rules.write_text(f"allow unsandboxed(touch:*) in {agent.workspace}\n")
    free = {"unsandboxed": True, "reason": "to see"}
    script = [
        Reply("", [Call("bash", {"command": "touch made", **free})]),
        Reply("", [Call("bash", {"command": "touch made", **free})]),
        Reply("", [Call("bash", {"command": "touch other", **free})]),
        Reply("Done."),
    ]
    agent.use(serve(script))
    child = at_terminal("run", "x")
    child.expect(r"left(\s|\x1b\[\d*m)+out")
    child.expect(r"unsandboxed\(touch made\)")
    child.expect(PROMPT)
    child.sendline("a")
    child.expect(r"unsandboxed\(touch other\)")
    child.expect(PROMPT)
    child.sendline("n")
    ended(child)
    assert rules.read_text().splitlines()[1:] == [
        f"allow unsandboxed(touch made) in {agent.workspace}"
    ]
    assert (agent.workspace / "made").exists()
    assert not (agent.workspace / "other").exists()


PAST = [
    ("git push origin main", "allow"),
    ("git push", "allow"),
    ("npm run build", "allow"),
    ("make clean", "allow"),
    ("make clean all", "deny"),
    ("python3 -c 'x'", "allow"),
    ("rm -rf build", "deny"),
    ("git push --force", ""),
    ("ls -la", ""),
]


@pytest.fixture
def past(agent):
    """Sessions on disk in which a person answered as in `PAST`."""

    def record(session_id: str, calls: list[tuple[str, str]], workspace: str = "") -> None:
        folder = agent.home / "state" / "sessions" / session_id
        with SessionLog.create(folder) as session:
            session.emit(started(session_id, workspace or str(agent.workspace)))
            session.emit(said("do it"))
            for command, answer in calls:
                action = session.emit(CmdRunAction(command=command))
                if answer:
                    session.emit(DecisionObservation(cause=action.id, decision=answer, by="user"))
            session.emit(GlobAction(pattern="x"))
            session.emit(FileEditAction(path="src/x.py"))

    record("20250101-100000-aaaa", PAST)
    record("20250102-100000-bbbb", [("git push", "allow")])
    record("20250103-100000-cccc", [("make evil", "allow")], "/somewhere/else")
    return record


def test_rules_are_tried_on_the_sessions_of_this_folder(agent, past):
    done = agent.ok(
        "policy", "test", "bash(git push:*)", "deny bash(rm:*)", "ask bash(git push --force)"
    )
    lines = done.stdout.splitlines()
    assert "allow   2x  git push  [bash(git push:*)]" in lines
    assert "allow       ls -la  [read]" in lines
    assert "ask         git push --force  [bash(git push --force)]" in lines
    assert "deny        rm -rf build  [bash(rm:*)]" in lines
    assert lines[-1] == "4 allowed, 7 asked, 1 denied"
    assert "evil" not in done.stdout


def test_rules_can_come_from_a_file_and_sessions_be_chosen(agent, past):
    file = agent.workspace / "rules.toml"
    file.write_text('[security]\nallow = ["bash(git push)"]\ndeny = ["edit(src/**)"]\n')
    done = agent("policy", "test", str(file), "--against", "20250102", "--json")
    result = json.loads(done.stdout)
    assert result["counts"] == {"allow": 1, "ask": 0, "deny": 1}
    first, second = result["actions"]
    assert (first["text"], first["decision"], first["answered"]) == ("git push", "allow", "allow")
    assert (second["tool"], second["rule"]) == ("edit", "edit(src/**)")


def test_the_fewest_rules_for_what_was_approved_are_suggested(agent, past):
    done = agent("policy", "suggest")
    assert tomllib.loads(done.stdout) == {
        "security": {"allow": ["bash(git push:*)", "bash(npm run build:*)"]}
    }
    assert "4 of 6 approvals are covered" in done.stderr
    again = agent("policy", "suggest", "--json", "--against", "20250102")
    assert json.loads(again.stdout) == {"allow": ["bash(git push:*)"], "covered": 1, "approved": 1}


def test_no_rule_is_suggested_that_would_not_cover_what_was_approved(agent):
    folder = agent.home / "state" / "sessions" / "20250104-100000-dddd"
    with SessionLog.create(folder) as session:
        start = started(folder.name, str(agent.workspace))
        session.emit(start.model_copy(update={"sandbox": "bubblewrap"}))
        session.emit(said("do it"))
        for action, answer in [
            (CmdRunAction(command="git push origin main", unsandboxed=True, reason="ssh"), "allow"),
            (CmdRunAction(command="git push --force origin main", network=True), "allow"),
            (CmdRunAction(command="npm install left-pad", network=True), "allow"),
            (CmdRunAction(command="make one && make two", network=True), "allow"),
            (CmdRunAction(command="make two", network=True), "deny"),
        ]:
            asked = session.emit(action)
            session.emit(DecisionObservation(cause=asked.id, decision=answer, by="user"))
    done = agent("policy", "suggest")
    assert tomllib.loads(done.stdout) == {
        "security": {"allow": ["bash(npm install left-pad)", "unsandboxed(git push origin main)"]}
    }
    assert "2 of 4 approvals are covered" in done.stderr
    assert "1 of high risk" in done.stderr


def test_what_is_suggested_can_be_used_as_it_is(agent, past):
    file = agent.workspace / "suggested.toml"
    file.write_text(agent("policy", "suggest").stdout)
    done = agent("policy", "test", str(file), "--json")
    decided = {each["text"]: each["decision"] for each in json.loads(done.stdout)["actions"]}
    assert decided["git push"] == "allow"
    assert decided["make clean all"] == "ask"
    assert decided["rm -rf build"] == "ask"


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["bash(ls; rm)"], 3, "each part of a compound"),
        (["bsh(ls)"], 3, "did you mean bash"),
        (["missing.toml"], 2, "can't be read"),
        (["bash(ls)", "--against", "nonsense"], 2, "no session"),
    ],
)
def test_what_can_not_be_tried_is_told(agent, past, arguments, code, told):
    done = agent("policy", "test", *arguments)
    assert done.returncode == code
    assert told in done.stderr
