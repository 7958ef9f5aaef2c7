"""The user's rules about reading hold for whatever opens a file, not only for the call that names
it.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess

import pytest

from agentcli.events.observations import CmdOutputObservation, UserRejectObservation
from agentcli.sessions.session import read_session
from tests.scripted import bash, scripted
from tests.server import Call, Reply
from tests.workspace.test_images import png

RULES = ("--set", 'security.deny=["read(*.pem)", "grep(notes/**)", "read(*.png)"]')
ASKS = ("--set", 'security.ask=["read(*.asked)"]')


def one_call_each(*calls: Call) -> list[Reply]:
    return [*(Reply("", [call]) for call in calls), Reply("Done.")]


def test_what_rules_keep_from_being_read_is_read_by_no_tool(agent, serve):
    work = agent.workspace
    (work / "a.txt").write_text("needle in a file for all\n")
    (work / "certs").mkdir()
    (work / "certs/key.pem").write_text("needle and secret\n")
    (work / "why.asked").write_text("needle and asked\n")
    (work / "notes").mkdir()
    (work / "notes/n.txt").write_text("needle and noted\n")
    (work / "link.txt").symlink_to("certs/key.pem")
    (work / "AGENTS.md").symlink_to("certs/key.pem")
    (work / ".agents/skills/one").mkdir(parents=True)
    (work / ".agents/skills/one/SKILL.md").symlink_to("../../../certs/key.pem")
    (work / "shot.png").write_bytes(png())
    change = {"path": "certs/key.pem", "old_str": "needle", "new_str": "n"}
    calls = [
        Call("grep", {"pattern": "needle"}),
        Call("grep", {"pattern": "need(?=le)"}),
        Call("grep", {"pattern": "needle", "path": "certs"}),
        Call("glob", {"pattern": "**/*"}),
        Call("read", {"path": "certs"}),
        Call("read", {"path": "link.txt"}),
        Call("read", {"path": "why.asked"}),
        Call("edit", change),
        Call("write", {"path": "certs/key.pem", "content": "x"}),
        Call("edit", {**change, "path": "why.asked"}),
        Call("llm_edit", {"path": "link.txt", "start": 1, "end": 1, "content": "x"}),
        Call("write", {"path": "new.pem", "content": "x"}),
        Call("read", {"path": "certs/key.pe"}),
        Call("read", {"path": "notes/n.txt"}),
    ]
    server = serve(one_call_each(*calls))
    on = ("--set", "tools.enable_llm_editor=true")
    done = agent.use(server).ok("run", *RULES, *ASKS, *on, "x")
    searched, by_python, inside, found, listed, *others, edited, created, missing, noted = (
        server.results
    )
    for each in (searched, by_python):
        assert "for all" in each
        assert not any(word in each for word in ("secret", "asked", "noted", "could not")), each
    assert inside == "No matches in certs"
    assert "why.asked" in found
    assert "key.pem" not in found + listed + missing
    for refused in (*others, edited):
        assert "Not allowed: the rule read(" in refused
    assert created.startswith("Created new.pem")
    assert "needle and noted" in noted
    sent = json.dumps([request.body for request in server.requests])
    assert "and secret" not in sent
    assert "needle and asked" not in sent
    assert (work / "certs/key.pem").read_text() == "needle and secret\n"
    assert "AGENTS.md may not be read: the rule read(*.pem) of security.deny denies it" in (
        done.stderr
    )
    assert "SKILL.md may not be read: the rule read(*.pem)" in done.stderr


def test_what_must_be_asked_about_is_searched_in_yolo(agent, serve):
    (agent.workspace / "why.asked").write_text("needle and asked\n")
    (agent.workspace / "key.pem").write_text("needle and secret\n")
    server = serve(one_call_each(Call("grep", {"pattern": "needle"})))
    agent.use(server).ok("run", *RULES, *ASKS, "--yolo", "x")
    assert "needle and asked" in server.results[0]
    assert "secret" not in server.results[0]


def test_an_image_is_not_attached_against_a_rule(agent, serve):
    (agent.workspace / "shot.png").write_bytes(png())
    (agent.workspace / "other").symlink_to("shot.png")
    server = serve([Reply("Seen.")])
    done = agent.use(server)("run", *RULES, "-i", "other", "what is this?")
    assert done.returncode == 2
    assert "other may not be read: the rule read(*.png) of security.deny denies it" in done.stderr
    assert server.requests == []


KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\ncanary\n"
SECRETS = {
    "tool/settings.cfg": ("canary\n", 0o600),
    "vault.kdbx": ("canary\n", 0o644),
    "project/.env.local": ("canary\n", 0o644),
    "project/aws-credentials.json": ("canary\n", 0o644),
    "project/server.pem": (f"certificate\n{KEY}", 0o644),
    "project/vpn.ovpn": (KEY, 0o644),
    "project/prod.env.bak": ("canary\n", 0o644),
    ".zshrc": ("export TOKEN=canary\n", 0o644),
}
OTHERS = {
    "project/notes.txt": "needle, not a canary\n",
    "project/.env.example": "needle\n",
    "project/secrets.py": "needle\n",
    "project/site-packages/certs/key.pem": KEY.replace("canary", "needle"),
}


@pytest.fixture
def home(agent):
    for name, (text, mode) in SECRETS.items():
        path = agent.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
    for name, text in OTHERS.items():
        path = agent.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return agent.home


def test_what_looks_like_a_secret_is_not_read_unasked(agent, serve, home):
    (agent.workspace / ".env").write_text("needle of the workspace\n")
    (agent.workspace / "link").symlink_to(home / "vault.kdbx")
    reads = [Call("read", {"path": str(home / name)}) for name in (*SECRETS, *OTHERS)]
    more = [
        Call("read", {"path": "link"}),
        Call("grep", {"pattern": "canary|needle", "path": str(home / "project")}),
        Call("grep", {"pattern": "needle"}),
    ]
    server = serve(one_call_each(*reads, *more))
    done = agent.use(server)("run", "--no-sandbox", "x")
    assert done.returncode == 5, done.stderr
    results = server.results
    for name, result in zip((*SECRETS, *OTHERS), results, strict=False):
        assert result.startswith("Not allowed: it ") is (name in SECRETS), (name, result)
    linked, searched, inside = results[-3:]
    assert linked.startswith("Not allowed: it has the name of a secret")
    assert "notes.txt" in searched
    assert "needle of the workspace" in inside
    sent = json.dumps([request.body for request in server.requests])
    assert sent.count("canary") == sent.count("not a canary") + sent.count("canary|needle")


def test_a_rule_or_yolo_lets_it_be_read(agent, serve, home):
    calls = [
        Call("read", {"path": str(home / "project/.env.local")}),
        Call("grep", {"pattern": "canary", "path": str(home / "project")}),
    ]
    for flags in (["--allow", f"read({home}/project/**)"], ["--yolo"]):
        server = serve(one_call_each(*calls))
        agent.use(server).ok("run", "--no-sandbox", *flags, "x")
        read, searched = server.results
        assert "canary" in read
        assert "3 more" in searched or searched.count("canary") >= 4, searched


def test_commands_outside_the_sandbox_do_not_show_it_unasked_either(agent, serve, home):
    refused = ["cat ~/.zshrc", "head -1 ~/tool/*", "cd ~/project && cat .env.local"]
    allowed = ["ls -l ~/.zshrc", "cat ~/project/notes.txt", "tail ~/vault.kdbx"]
    server = serve([*map(bash, (*refused, *allowed)), *one_call_each()])
    flags = ["--no-sandbox", "--allow", "bash(tail ~/vault.kdbx)"]
    agent.use(server).ok("run", *flags, "x")
    results = server.results
    for command, result in zip(refused, results, strict=False):
        assert "it names a file that looks like a secret" in result, command
    for command, result in zip(allowed, results[len(refused) :], strict=True):
        assert "Not allowed" not in result, (command, result)


REFUSED = """
diff -rN link empty
diff -r link empty
diff -rN tree empty
grep -R canary .
grep -inR canary .
egrep --dereference-recursive canary .
rg -L canary
rg --follow canary .
cat /proc/*/environ
cat /proc/$PPID/environ
cat /proc/self/environ
cat /p*c/1/environ
grep -a TOKEN /proc/1/environ
grep -ra TOKEN /proc
cat tr*/key
cat t*/li*/id_ed25519
cat t*/sub/../link/id_ed25519
cd tr* && cat link/id_ed25519
cd ~ && grep -r canary
cd ~ && rg --hidden canary
cd ~ && rg -f work/pattern
grep -ftree/link/id_ed25519 a.txt
grep -onftree/link/id_ed25519 a.txt
rg -ftree/link/id_ed25519 a.txt
git grep -ftree/link/id_ed25519
file -mtree/link/id_ed25519 a.txt
du -Xtree/link/id_ed25519 .
/usr/bin/grep -r canary ~
git diff ~ empty
strings @names
file -f names
wc --files0-from=names
jq -n 'import "id" as $x {search: "~/.ssh"}; $x'
cd - && cat .ssh/id_ed25519
cd nowhere; cat tree/key
cd tree; cd ../nowhere; cat key
cd -P tree/link/.. && cat .ssh/id_ed25519
""".strip().splitlines()
HARMLESS = """
diff -r --no-dereference tree empty
diff a.txt b.txt
grep -rn canary .
grep -eREADME a.txt
grep -fpattern a.txt
rg canary
rg -tpy -A 3 canary .
cat /proc/cpuinfo
cat /proc/self/status
cat *.txt
ls tr*
cat t*/plain.txt
wc -l *.txt
strings a.txt
cd tree && cat plain.txt
git diff HEAD
jq . data.json
ls ~
""".strip().splitlines()


def test_commands_that_only_read_show_nothing_hidden_where_nothing_contains_them(agent):
    work, secret = agent.workspace, agent.home / ".ssh"
    secret.mkdir()
    (secret / "id_ed25519").write_text("canary\n")
    for folder in ("tree/sub", "empty"):
        (work / folder).mkdir(parents=True)
    (work / "tree/link").symlink_to(secret)
    (work / "link").symlink_to(work / "tree")
    (work / "tree/key").symlink_to(secret / "id_ed25519")
    (work / "names").write_text(f"{secret}/id_ed25519\0")
    (work / "data.json").write_text("{}")
    for name in ("a.txt", "b.txt", "tree/plain.txt", "pattern"):
        (work / name).write_text("plain\n")
    commands = [*REFUSED, *HARMLESS]
    replies = [*map(bash, commands), Reply("Done.")]
    model = scripted(agent.home / "model", *replies)
    agent.ok("run", "--no-sandbox", "--model", model, "x")
    (folder,) = (agent.home / "state/sessions").iterdir()
    events = read_session(folder).events
    texts = {e.id: e.command for e in events if e.kind == "run"}
    ran = {texts[e.cause] for e in events if isinstance(e, CmdOutputObservation)}
    refused = {texts[e.cause]: e.reason for e in events if isinstance(e, UserRejectObservation)}
    assert set(REFUSED) - refused.keys() == set()
    assert set(HARMLESS) - ran == set()
    assert "follow links" in refused["grep -R canary ."]
    assert "hidden" in refused["cat /proc/*/environ"]
    said = [event.content for event in events if isinstance(event, CmdOutputObservation)]
    assert "canary" not in json.dumps(said)


def test_a_command_is_judged_in_the_folder_that_it_changes_to(agent, serve):
    commands = [
        'cd "$(git rev-parse --show-toplevel)" && rm -rf .git',
        "D=$(mktemp -d); cd $D && git init -q && echo '[x]' >> .git/config && echo written",
        'D=/tmp/elsewhere; mkdir -p $D/.git && cd "$D" && echo "[x]" >> .git/config && echo there',
    ]
    subprocess.run(["git", "init", "-q"], cwd=agent.workspace, check=True)
    server = serve([*map(bash, commands), Reply("Done.")])
    agent.use(server).ok("run", "x")
    root, unknown, known = server.results
    assert "written" in unknown
    assert f"it would delete {agent.workspace}/.git, which holds the history" in root
    assert "there" in known


NOBODY = 65534


@pytest.fixture
def settings(agent):
    path = agent.home / ".config/agent/config.toml"
    path.parent.mkdir(parents=True)
    path.write_text("[security]\nallow = ['bash']\n")
    return path


def refused(agent, path, why: str) -> None:
    done = agent("config", "show")
    assert done.returncode == 3
    assert str(path) in done.stderr
    assert why in done.stderr
    assert "chmod go-w" in done.stderr
    assert agent("run", "x").returncode == 3


@pytest.mark.parametrize("mode", [0o666, 0o664, 0o602])
@pytest.mark.parametrize("linked", [False, True])
def test_settings_that_others_could_have_written_do_not_count(agent, settings, mode, linked):
    real = settings
    if linked:
        real = settings.rename(agent.home / "dotfile")
        settings.symlink_to(real)
    real.chmod(mode)
    refused(agent, settings, "other users may write to it")
    real.chmod(0o644)
    agent.ok("config", "show")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_settings_of_another_user_do_not_count(agent, settings):
    os.chown(settings, NOBODY, NOBODY)
    refused(agent, settings, "it belongs to another user")
    agent.env["AGENT_CONFIG"] = str(settings.rename(agent.home / "named.toml"))
    refused(agent, agent.home / "named.toml", "it belongs to another user")


def test_sessions_may_be_kept_elsewhere_but_not_among_others(agent, serve, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir(mode=0o700)
    (agent.home / "state/sessions").symlink_to(disk)
    agent.use(serve([Reply("Done.")] * 2))
    agent.ok("run", "x")
    assert len(list(disk.iterdir())) == 1
    disk.chmod(0o777)
    done = agent("run", "x")
    assert done.returncode == 1
    assert f"sessions can't be kept in {disk}" in done.stderr
    disk.chmod(0o700)
    if os.getuid() == 0:
        os.chown(disk, NOBODY, NOBODY)
        assert agent("run", "x").returncode == 1
    assert len(list(disk.iterdir())) == 1


FAULTS = {
    "rule": ("[security]\ndeny = ['bash(ls; rm)', 'bash(touch:*)', 'nonsense(']\n", "2 left out"),
    "question": ("[security]\nask = ['bash(']\n", "1 left out"),
    "kind": ("[security]\ndeny = 'bash'\n", "its security.deny takes no effect"),
    "key": ("[security]\ndenny = []\n", "there is no setting 'security.denny'"),
    "section": ("nothing = 1\n", "there is no setting 'nothing'"),
    "syntax": ("[security\n", "not valid TOML"),
    "bytes": ("\udcff", "not valid TOML"),
    "folder": (None, "is not a file"),
    "pipe": (os.mkfifo, "is not a file"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_mistake_in_a_folder_that_is_not_trusted_stops_a_run(agent, serve, fault):
    content, told = FAULTS[fault]
    path = agent.workspace / ".agent/config.toml"
    path.parent.mkdir()
    if content is None:
        path.mkdir()
    elif callable(content):
        content(path)
    else:
        path.write_text(content, errors="surrogateescape")
    server = serve([Reply("Done.")])
    done = agent.use(server).ok("run", "x")
    assert done.stdout == "Done.\n"
    [line] = [line for line in done.stderr.splitlines() if str(path.parent) in line]
    assert told in line
    shown = agent("config", "show").stdout
    assert ('security.deny = ["bash(touch:*)"]' in shown) is (fault == "rule")


def test_files_with_secrets_among_them_are_not_copied_for_a_session(agent):
    work = agent.home / ".config"
    secret = work / "gh/hosts.yml"
    secret.parent.mkdir(parents=True)
    secret.write_text("oauth_token: canary\n")
    model = scripted(agent.home / "model", bash("cat gh/hosts.yml"), Reply("Done."))
    agent.env["AGENT_MODEL"] = model
    agent.ok("run", "x", cwd=work)
    tasks = agent.home / "tasks.jsonl"
    listed = [
        {"id": "one", "prompt": "x", "workspace": str(work)},
        {"id": "two", "prompt": "x", "workspace": str(agent.home)},
    ]
    tasks.write_text("\n".join(map(json.dumps, listed)))
    out = agent.workspace / "out"
    for command in (
        ["fork", "--dir", str(agent.workspace / "fork")],
        ["replay", "--save", str(agent.workspace / "recording")],
        ["run", "--tries", "2", "--check", "true", "x"],
        ["batch", str(tasks), "--out", str(out)],
    ):
        done = agent(*command, cwd=work)
        assert done.returncode != 0, command
        assert "is not copied: in a copy," in done.stderr, done.stderr
    copies = [path for path in agent.workspace.rglob("*") if path.is_file()]
    assert not any(b"canary" in path.read_bytes() for path in copies)
    said = [path.read_text() for folder in agent.sessions for path in folder.rglob("events/*")]
    assert not any("canary" in text for text in said)


LINKS = """
rmdir reports
ln -s ../home/.bash_aliases answer.md
ln -s ../home/.config reports
ln -s ../home/.profile .mcp.json
mkdir .agent
ln -s ../../home/settings.toml .agent/config.toml
ln -s ../home/.config/autostart new
"""


def test_no_link_that_a_command_left_leads_what_the_agent_writes_out_of_the_workspace(agent):
    (agent.home / ".config").mkdir()
    (agent.workspace / "reports").mkdir()
    (agent.workspace / "mine.md").symlink_to(agent.home / "mine.md")
    agent.env["AGENT_MODEL"] = scripted(agent.home / "model", bash(LINKS), Reply("touch ran"))
    before = sorted(agent.home.iterdir())
    done = agent("run", "x", "-o", "answer.md", "--record", "reports/run.jsonl")
    assert done.stdout == "touch ran\n"
    assert "the answer is not written: answer.md leads through a link" in done.stderr
    assert "reports leads through a link" in done.stderr
    assert done.returncode == 1
    for command in (
        ["sessions", "export", "-f", "markdown", "-o", "answer.md"],
        ["sessions", "export", "-o", "mine.md"],
        ["sessions", "export", "-o", str(agent.home / "state/../../work/reports/x.json")],
        ["replay", "--save", "reports/run.jsonl"],
        ["fork", "--dir", "new"],
        ["mcp", "add", "--project", "foo", "--", "echo"],
        ["config", "set", "--project", "agent.max_turns", "5"],
    ):
        done = agent(*command)
        assert done.returncode == 2, command
        assert "leads through a link" in done.stderr, command
    assert sorted(agent.home.iterdir()) == before
    assert list((agent.home / ".config").iterdir()) == []
    named = agent.home / "named"
    named.symlink_to(agent.home / "there.json")
    agent.ok("sessions", "export", "-o", str(named))
    assert (agent.home / "there.json").is_file()
    assert named.is_symlink()


def test_an_agent_that_crashes_leaves_no_core_with_its_keys(agent):
    """Its folder is the workspace, and its memory holds keys."""
    limits = bash("cat /proc/$PPID/limits > limits")
    agent.env["AGENT_MODEL"] = scripted(agent.home / "model", limits, Reply("Done."))
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    process = agent.start(
        *("run", "--no-sandbox", "--yolo", "x"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (hard, hard)),
    )
    _, told = process.communicate()
    assert process.returncode == 0, told.decode()
    said = (agent.workspace / "limits").read_text()
    (row,) = (row for row in said.splitlines() if row.startswith("Max core file size"))
    assert row.split()[4] == "0"
