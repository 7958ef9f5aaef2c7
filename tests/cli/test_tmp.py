"""/tmp is the session's own, but for what the person names there; what is left in it is told."""

from __future__ import annotations

import json
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentcli.sandbox.scope_finder import paths_named
from tests.cli.test_workspace_warnings import bash, needs_bubblewrap, outputs
from tests.server import Call, Reply

pytestmark = needs_bubblewrap
NOBODY = 65534
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can be someone else")


@pytest.fixture
def theirs() -> Iterator[Path]:
    """A folder of the person's in the real /tmp."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        yield Path(name)


def read(path: Path | str) -> Reply:
    return Reply("", [Call("read", {"path": str(path)})])


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
    writes = Reply("", [Call("write", {"path": str(log), "content": "x"})])
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
