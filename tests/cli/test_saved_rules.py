"""Rules that a person answers "always" to: kept where they can be, and never at a run's cost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agentcli.errors import ConfigError
from agentcli.security.policy.rules import SavedRules, parse_rule
from agentcli.workspace import private
from tests.cli.test_terminal import PROMPT, at_terminal, ended  # noqa: F401 - a fixture
from tests.server import Call, Reply

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
def test_an_answer_counts_where_the_rule_can_not_be_saved(agent, serve, at_terminal, how):  # noqa: F811
    spoil(agent.home / ".config/agent", how)
    script = [Reply("", [Call("bash", TOUCH)]), Reply("", [Call("bash", TOUCH)]), Reply("Done.")]
    server = serve(script)
    agent.use(server)
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


def test_out_of_the_sandbox_only_the_very_command_is_offered_and_kept(agent, serve, at_terminal):  # noqa: F811
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
