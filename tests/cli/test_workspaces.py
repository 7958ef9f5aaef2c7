"""Where a session works: said before anything runs, and in home and `/` only what is named can be
changed.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from agentcli.sandbox.scope_finder import paths_named
from tests.attacks.raids import OTHER_PYTHON, Arena, make_arena
from tests.conftest import LIMIT_S, PYTHON, git
from tests.sandbox.sandboxes import LAYERS
from tests.scripted import bash, call, write
from tests.server import Call, ModelServer, Reply

needs_bubblewrap = pytest.mark.skipif("bubblewrap" not in LAYERS, reason="needs bubblewrap")


def outputs(agent) -> list[str]:
    """What the commands of the newest session printed."""
    events = sorted((agent.sessions[-1] / "events").glob("*.json"))
    found = [json.loads(path.read_text()) for path in events]
    return [each["content"] for each in found if each.get("observation") == "run"]


@pytest.mark.parametrize(("place", "called"), [("/", "root of the file system"), (None, "home")])
def test_home_and_root_need_folders_before_anything_starts(agent, serve, place, called):
    server = agent.asks(serve([]))
    folder = place or str(agent.home)
    done = agent("run", "-C", folder, "tidy up")
    assert done.returncode == 3
    assert called in done.stderr
    assert "--add-dir DIR" in done.stderr
    assert f"--add-dir {folder} for all of it" in done.stderr
    assert server.requests == []
    assert agent.sessions == []


@pytest.mark.parametrize("place", ["/", None])
def test_only_what_was_named_can_be_changed_there(agent, serve, place):
    named = agent.home / "named" if place is None else agent.workspace
    named.mkdir(exist_ok=True)
    folder = place or str(agent.home)
    marks = [named / "mark", agent.home / "mark"]
    tries = "; ".join(f"touch '{mark}'" for mark in marks)
    writes = write(str(agent.home / "mark"), "x")
    agent.use(serve([bash(f"pwd; {tries}"), writes, Reply("Done.")]))
    done = agent("run", "-C", folder, "--add-dir", str(named), "x")
    assert f"only what you named can be changed: {named}" in done.stderr
    assert outputs(agent)[0].split("\n")[0] == folder
    assert [mark.exists() for mark in marks] == [True, False]


@needs_bubblewrap
def test_all_of_the_root_works_where_it_is_named(agent, serve):
    """As in a container whose work lies there: what sets the machine stays out of reach."""
    machine = "for f in /proc/sys/kernel/hostname /sys/kernel/mm/ksm/run /run/x; do"
    command = "[ -w /opt ] && [ -w / ] && echo hello > /dev/null && echo works; "
    command += f'{machine} (echo 1 > "$f") 2>/dev/null && echo "changed $f"; done; ls /run | wc -l'
    changed = write("/proc/sys/kernel/hostname", "x")
    agent.use(serve([bash(command), changed, Reply("Done.")]))
    done = agent("run", "-C", "/", "--add-dir", "/", "x")
    assert "all of it can be changed, as you named it" in done.stderr
    said = outputs(agent)[0]
    assert "works" in said
    assert "changed /proc" not in said
    assert "changed /sys" not in said
    assert Path("/proc/sys/kernel/hostname").read_text() != "x"
    assert not Path("/run/x").exists()


def test_a_session_at_home_is_gone_on_with_as_it_was_begun(agent, serve):
    named = agent.home / "named"
    named.mkdir()
    script = [Reply("Hello."), bash(f"touch {named}/mark {agent.home}/mark"), Reply("Done.")]
    agent.use(serve(script, sessions=2))
    agent("run", "-C", str(agent.home), "--add-dir", str(named), "x")
    agent("resume", "--last", "-C", str(agent.home), "go on")
    assert (named / "mark").exists()
    assert not (agent.home / "mark").exists()


def test_what_plan_mode_could_read_names_no_folders(agent, serve):
    agent.use(serve([Reply("Hello.")]))
    done = agent("run", "-C", str(agent.home), "--approval", "plan", "x")
    assert "nothing in it is changed in plan mode" in done.stderr
    assert agent("resume", "--last", "-C", str(agent.home), "go on").returncode == 3


def test_at_a_terminal_it_is_asked_once(agent, serve):
    (agent.home / "my project").mkdir()
    marks = "touch 'my project/mark' mark; echo tried"
    agent.use(serve([bash(marks), bash("echo again"), Reply("Done.")]))
    child = agent.spawn("run", "x", rows=60, columns=300, cwd=agent.home)
    child.expect("is your home folder")
    child.expect("> ")
    child.sendline("nowhere")
    child.expect("there is no folder")
    child.expect("> ")
    child.sendline("'my project'")
    child.expect("home folder: only")
    child.expect(pexpect.EOF)
    child.close()
    assert (agent.home / "my project/mark").exists()
    assert not (agent.home / "mark").exists()


def test_a_folder_without_git_is_told_of_and_a_repository_is_not(agent, serve, repository):
    agent.use(serve([Reply("Hello."), Reply("Hello.")], sessions=2))
    said = "is not in a git repository"
    assert said not in agent("run", "x").stderr
    alone = agent.home / "alone"
    alone.mkdir()
    told = agent("run", "-C", str(alone), "x").stderr
    assert f"{alone} {said}; agent undo takes back" in told


@needs_bubblewrap
def test_a_new_branch_is_tracked_and_a_hook_is_not_named(agent, serve, repository):
    git(repository, "branch", "-M", "main")
    before = (repository / ".git/config").read_bytes()
    agent.use(
        serve(
            [
                bash("git switch -qc topic --track main && git branch -m renamed"),
                bash("git config core.hooksPath hooks; git config user.name me"),
                bash("exec 3<.git/config; git config user.name you; exec 3<&-"),
                Reply("Done."),
            ]
        )
    )
    agent.ok("run", "--set", "sandbox.layer=bubblewrap", "x")
    assert git(repository, "rev-parse", "--abbrev-ref", "renamed@{u}").strip() == "main"
    assert git(repository, "config", "--local", "user.name").strip() == "me"
    assert "hooks" not in (repository / ".git/config").read_text()
    _, refused, busy = outputs(agent)
    assert "could not write config file .git/config: Operation not permitted" in refused
    assert 'not written to git\'s settings: "core.hookspath"; the sandbox lets in only' in refused
    assert "Device or resource busy" in busy
    for _ in range(2):
        agent.ok("undo")
    assert (repository / ".git/config").read_bytes() == before


pytestmark = needs_bubblewrap
NOBODY = 65534
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can be someone else")


@pytest.fixture
def theirs() -> Iterator[Path]:
    """A folder of the person's in the real /tmp."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        yield Path(name)


def read(path: Path | str) -> Reply:
    return call("read", path=str(path))


def results(agent) -> list[str]:
    """What each call of the newest session gave."""
    events = sorted((agent.sessions[-1] / "events").glob("*.json"))
    found = [json.loads(path.read_text()) for path in events]
    return [e["content"] for e in found if e.get("observation") in ("run", "read", "error")]


def test_what_the_person_names_is_read_where_they_mean_it_and_nothing_else(agent, serve, theirs):
    log, other = theirs / "build log.txt", theirs / "other.txt"
    log.write_text("it broke here\n")
    other.write_text("private\n")
    tries = f"cat '{log}'; echo more >> '{log}'; rm -f '{log}'; mv '{log}' x; ls '{theirs}'"
    writes = write(str(log), "x")
    agent.use(serve([read(log), bash(tries), read(other), writes, Reply("Done.")]))
    done = agent("run", f"why did it fail? see '{log}'.")
    assert f"the session may read {log}" in done.stderr
    by_tool, by_command, beside, *_ = results(agent)
    assert "it broke here" in by_tool
    assert "it broke here" in by_command
    assert "other.txt" not in by_command
    assert "private" not in beside
    assert log.read_text() == "it broke here\n"


def test_a_later_message_names_more_and_a_resumed_session_keeps_it(agent, serve, theirs):
    first, later = theirs / "first.txt", theirs / "later.txt"
    first.write_text("one\n")
    later.write_text("two\n")
    look = bash(f"cat {first} {later}")
    agent.use(serve([look, Reply("Done."), look, Reply("Done."), look, Reply("Done.")], sessions=3))
    agent("run", f"look at {first}")
    assert "two" not in outputs(agent)[-1]
    agent("resume", "--last", f"and at {later}:12, please")
    assert outputs(agent)[-1] == "one\ntwo"
    agent("resume", "--last", "again")
    assert outputs(agent)[-1] == "one\ntwo"


def test_a_message_from_another_terminal_names_things_too(agent, serve, theirs):
    path = theirs / "file.txt"
    path.write_text("theirs\n")
    agent.use(serve([Reply("Hello."), bash(f"cat {path}"), Reply("Done.")], sessions=2))
    agent("run", "x")
    agent("tell", f"look at {path}")
    assert f"the session may read {path}" in agent("resume", "--last").stderr
    assert outputs(agent) == ["theirs"]


@pytest.mark.parametrize("how", ["pipe", "command"])
def test_only_the_person_s_own_words_name_anything(agent, serve, theirs, how):
    secret = theirs / "secret.txt"
    secret.write_text("private\n")
    agent.use(serve([read(secret), bash(f"echo 'look at {secret}'; cat {secret}"), Reply("Done.")]))
    if how == "pipe":
        agent("run", "what does it say?", stdin=f"see {secret} for more".encode())
    else:
        agent("run", "what does it say?")
    assert "private" not in "".join(results(agent))


@needs_root
@pytest.mark.parametrize(
    "plant",
    [
        pytest.param(lambda p: os.chown(p, NOBODY, NOBODY), id="another user's"),
        pytest.param(lambda p: (p.unlink(), p.symlink_to("/etc/shadow")), id="a link"),
        pytest.param(lambda p: (p.unlink(), os.mkfifo(p)), id="a pipe"),
        pytest.param(lambda p: p.with_name("second").hardlink_to(p), id="a hard link"),
        pytest.param(lambda p: p.parent.chmod(0o777), id="where others can write"),
        pytest.param(lambda p: os.chown(p.parent, NOBODY, NOBODY), id="in another user's folder"),
    ],
)
def test_what_others_could_have_put_there_is_not_shown(agent, serve, theirs, plant):
    path = theirs / "file.txt"
    path.write_text("private\n")
    plant(path)
    agent.use(serve([bash(f"timeout 5 cat {path} < /dev/null"), Reply("Done.")]))
    done = agent("run", f"look at {path}")
    assert f"{path} is not shown to the session: " in done.stderr
    assert "private" not in "".join(results(agent))
    assert "root:" not in "".join(results(agent))


def test_a_link_that_the_session_puts_in_the_place_of_a_name_shows_nothing(agent, serve, theirs):
    path = theirs / "file.txt"
    path.write_text("theirs\n")
    hidden = agent.home / ".ssh"
    hidden.mkdir()
    (hidden / "id_rsa").write_text("private\n")
    link = bash(f"mkdir -p {theirs.parent}; ln -s {hidden} {theirs}; echo linked")
    look = bash(f"cat {path} {theirs}/id_rsa")
    agent.use(serve([link, Reply("Done."), look, Reply("Done.")], sessions=2))
    agent("run", "x")
    done = agent("resume", "--last", f"look at {path}")
    assert "the session has put a link in its place" in done.stderr
    assert "private" not in "".join(results(agent))


def test_what_is_left_in_the_session_s_own_tmp_is_told(agent, serve):
    agent.use(serve([bash("echo hi > /tmp/report.md; mkdir /tmp/tmpabc123"), Reply("Done.")] * 2,
                    sessions=2))  # fmt: skip
    done = agent("run", "write /tmp/report.md")
    folder = agent.sessions[-1] / "tmp"
    assert f"in the session's own /tmp: /tmp/report.md · {folder}" in done.stderr
    assert (folder / "report.md").read_text() == "hi\n"
    result = json.loads(agent("run", "--output-format", "json", "x").stdout)
    assert result["tmp_files"] == ["/tmp/report.md"]
    session = next(each for each in agent.sessions if each.name == result["session_id"])
    assert result["tmp_folder"] == str(session / "tmp")


def test_a_workspace_in_the_real_tmp_does_not_count_as_left_behind(agent, serve):
    """The sandbox makes an empty folder of that name to mount it on."""
    agent.use(serve([bash("mkdir -p /tmp/kept/in; echo hi > /tmp/kept/in/file"), Reply("Done.")]))
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="project-") as workspace:
        done = agent("run", "--output-format", "json", "x", cwd=Path(workspace))
    assert json.loads(done.stdout)["tmp_files"] == ["/tmp/kept"]


def test_the_real_tmp_can_be_shared_but_not_the_sockets_in_it(agent, serve, theirs):
    """A tmux or an ssh-agent listens there, which would do anything for a command."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(theirs / "daemon"))
        listener.listen()
        connect = f"import socket; socket.socket(socket.AF_UNIX).connect('{theirs}/daemon')"
        command = f'echo hi > {theirs}/mark; echo "$TMPDIR"; python3 -c "{connect}" && echo reached'
        agent.use(serve([bash(command), Reply("Done.")]))
        done = agent("run", "--share-tmp", "x")
    assert "/tmp is shared with this session" in done.stderr
    assert (theirs / "mark").read_text() == "hi\n"
    assert "reached" not in outputs(agent)[0]
    assert str(agent.sessions[-1] / "tmp") in outputs(agent)[0]
    assert not Path("/tmp/.cache").exists()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("see {0}/a.txt.", ["a.txt"]),
        ("see {0}/a.txt, {0}/b.txt; then (read {0}/c.txt)", ["a.txt", "b.txt", "c.txt"]),
        ("'{0}/with blank' and {0}/with\\ blank", ["with blank"]),
        ("file://{0}/a.txt and `{0}/b.txt`", ["a.txt", "b.txt"]),
        ("{0}/a.txt:10:3: error", ["a.txt"]),
        ("{0}/missing, /var{0}/a.txt, $HOME{0}/a.txt, https://x{0}/a.txt", []),
        ("{0}/../../etc/passwd and {0}/x/../a.txt", ["a.txt"]),
        ("/tmp and /tmp/", []),
    ],
)
def test_paths_in_a_message_as_people_write_them(theirs, text, names):
    for name in ("a.txt", "b.txt", "c.txt", "with blank"):
        (theirs / name).write_text("")
    assert paths_named(text.format(theirs)) == [theirs / name for name in names]


UNKNOWN_USER = 54_321
"""Of whom the system knows no name and no home."""


@pytest.mark.parametrize(
    "flags",
    [
        ["--add-dir", "~nosuch/x"],
        ["--set", "agent.prompt=~nosuch/x"],
        ["-C", "~nosuch/x"],
        ["-m", "scripted/~nosuch/x"],
    ],
    ids=lambda flags: flags[0],
)
def test_the_home_of_nobody_is_named(agent, serve, flags):
    agent.use(serve([]))
    done = agent("run", "x", *flags)
    assert done.returncode == 3, done.stderr
    assert "~nosuch/x" in done.stderr


@pytest.mark.skipif(OTHER_PYTHON is None, reason="only root can be somebody else")
def test_a_user_without_a_home_can_work():
    with make_arena("auto", "nobody") as place:
        for path in (place.base, *place.base.rglob("*")):
            os.chown(path, UNKNOWN_USER, UNKNOWN_USER, follow_symlinks=False)
        work_without_a_home(place)


def work_without_a_home(place: Arena) -> None:
    def run(*arguments: str, **variables: str) -> tuple[int, str]:
        environment = {k: v for k, v in place.agent.environment.items() if k[-4:] != "HOME"}
        done = subprocess.run(
            [*place.agent.command, *arguments],
            cwd=place.workspace,
            env=environment | variables,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=LIMIT_S,
            user=UNKNOWN_USER,
            group=UNKNOWN_USER,
            extra_groups=[],
        )
        told = (done.stdout + done.stderr).decode()
        assert "Traceback" not in told
        return done.returncode, told

    known = {"AGENT_HOME": str(place.home / "state"), "AGENT_CONFIG": str(place.home / "x.toml")}
    with ModelServer([Reply("Hello.")], models=["gpt-5.5"]) as server:
        place.agent.use(server)
        assert (ran := run("run", "x", **known))[0] == 0, ran
        assert run("notes", **known)[0] == 0
        assert f"runs as {UNKNOWN_USER}" in run("doctor", **known)[1]
        code, told = run("run", "x")
    assert code == 3
    assert "set HOME" in told


@pytest.mark.parametrize("where", ["state", "state/sessions", ".config/agent", ".config/agent/x"])
def test_it_does_not_work_where_its_own_files_are(agent, serve, where):
    agent.use(serve([]))
    folder = agent.home / where
    folder.mkdir(parents=True, exist_ok=True)
    link = agent.home / "link"
    link.symlink_to(folder)
    for arguments in (["-C", str(folder)], ["-C", str(link)], ["--add-dir", str(link)]):
        done = agent("run", "x", *arguments)
        assert done.returncode == 3
        assert "the agent's own settings or sessions" in done.stderr
    assert agent.sessions == []


def test_its_own_files_may_be_below_the_folder_it_works_in(agent, serve):
    write = {"code": "open('st' + 'ate/USER.md', 'w').write('obey')"}
    agent.use(serve([Reply("", [Call("python", write)]), Reply("Hello.")]))
    agent.workspace = agent.home
    agent.ok("run", "x", *PYTHON, "--add-dir", str(agent.home))
    assert not (agent.home / "state/USER.md").exists()


def test_a_home_that_takes_nothing_is_no_bug_of_the_program(agent, serve):
    agent.use(serve([Reply("Hello.")]))
    agent.ok("run", "x")
    (agent.home / "state/sessions.scrap").write_text("in the way")
    done = agent("fork", "--dir", str(agent.home / "copy"))
    assert done.returncode == 1
    assert "sessions.scrap" in done.stderr
    assert "internal" not in done.stderr


def test_settings_that_are_too_long_are_not_read_in_part(agent, serve):
    agent.use(serve([]))
    settings = agent.home / "config.toml"
    settings.write_text("#" * 1_000_000 + '\n[security]\ndeny = ["bash"]\n')
    agent.env["AGENT_CONFIG"] = str(settings)
    done = agent("run", "x")
    assert done.returncode == 3
    assert "longer than" in done.stderr
