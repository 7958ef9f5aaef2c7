"""Where no sandbox contains commands and nobody is asked, those that only read show nothing that is
hidden."""

from __future__ import annotations

import json
import subprocess

from agentcli.events.observations import CmdOutputObservation, UserRejectObservation
from agentcli.sessions.session import read_session
from tests.scripted import bash, scripted
from tests.server import Reply

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
    done = agent("run", "--no-sandbox", "--model", model, "x")
    assert done.returncode == 0, done.stderr
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
    done = agent.use(server)("run", "x")
    assert done.returncode == 0, done.stderr
    messages = server.requests[-1].body["messages"]
    root, unknown, known = [m["content"] for m in messages if m["role"] == "tool"]
    assert "written" in unknown
    assert f"it would delete {agent.workspace}/.git, which holds the history" in root
    assert "there" in known
