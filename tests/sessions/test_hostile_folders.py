"""Session folders that are damaged, foreign, made to deceive, or on a disk that fails.

Each is named and answered in words; nothing in it is run, and nothing intact is lost.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Agent
from tests.server import Call, ModelServer, Reply

NOBODY = 1000
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
EVENT = "000000003.json"


@pytest.fixture(scope="module")
def originals(tmp_path_factory) -> dict[str, Path]:
    """Homes with one finished session each: a short one, and one of more than a full page."""
    homes = {}
    for name, steps in (("short", 1), ("long", 60)):
        home, workspace = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("work")
        (workspace / "notes.txt").write_text("notes\n")
        looks = [Reply("", [Call("glob", {"pattern": f"{n}*"})]) for n in range(steps)]
        with ModelServer([*looks, Reply("looked")]) as server:
            done = Agent(home, workspace).use(server)("run", "look around", "--name", name)
        assert done.returncode == 0, done.stderr
        homes[name] = home
    return homes


@pytest.fixture
def load(agent, serve, originals) -> Callable[[str], Path]:
    """Put a copy of a session into the home of `agent`, with a model that has one more answer."""

    def copy(name: str) -> Path:
        shutil.copytree(originals[name], agent.home, dirs_exist_ok=True)
        agent.use(serve([Reply("more")]))
        return agent.sessions[0]

    return copy


def garbage(path: Path) -> None:
    path.write_text('{"id": 3, "action": "mess')


def empty(path: Path) -> None:
    path.write_text("")


def another_event(path: Path) -> None:
    path.write_bytes((path.parent / "000000002.json").read_bytes())


def not_utf8(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00{}")


def deeply_nested(path: Path) -> None:
    path.write_text("[" * 100_000)


def link_elsewhere(path: Path) -> None:
    elsewhere = path.parents[3] / "elsewhere.json"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def missing(path: Path) -> None:
    path.unlink()


DAMAGES = [
    garbage, empty, another_event, not_utf8, deeply_nested, link_elsewhere, fifo, folder, missing,
]  # fmt: skip


def contents(session: Path) -> dict[str, bytes]:
    files = (path for path in (session / "events").rglob("*") if path.is_file())
    return {str(path.relative_to(session)): path.read_bytes() for path in files}


def refused(agent: Agent, session: Path, *words: str, code: int = 1) -> None:
    """`resume` says why not, with all these words, and writes no event."""
    before = contents(session)
    done = agent("resume", session.name, "go on")
    assert done.returncode == code, done.stderr
    assert all(word in done.stderr for word in words), done.stderr
    assert contents(session) == before


def listed(agent: Agent, session: Path) -> None:
    done = agent("sessions", "list", "--all")
    assert done.returncode == 0, done.stderr
    assert session.name in done.stdout


def goes_on(agent: Agent, session: Path) -> None:
    done = agent("resume", session.name, "go on")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "more\n"


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_in_the_middle_is_named_shown_up_to_there_and_repaired(agent, load, damage):
    session = load("short")
    damage(session / "events" / EVENT)
    after = {name for name in contents(session) if name > f"events/{EVENT}"}
    refused(agent, session, EVENT, f"agent sessions repair {session.name}")
    listed(agent, session)
    shown = agent("sessions", "show", session.name)
    assert "look around" in shown.stdout
    assert EVENT in shown.stderr

    planned = agent("sessions", "repair", session.name, "--dry-run", "--json")
    assert planned.returncode == 0, planned.stderr
    assert json.loads(planned.stdout)["dry_run"] is True
    assert not (session / "events.bad").exists()
    repaired = agent("sessions", "repair", session.name)
    assert repaired.returncode == 0, repaired.stderr
    assert EVENT in repaired.stdout
    assert {f"events/{path.name}" for path in (session / "events.bad").iterdir()} >= after
    goes_on(agent, session)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_within_a_full_page_is_undone_from_the_page(agent, load, damage):
    session = load("long")
    before = contents(session)
    damage(session / "events" / EVENT)
    refused(agent, session, EVENT)
    repaired = agent("sessions", "repair", session.name, "--json")
    assert repaired.returncode == 0, repaired.stderr
    assert json.loads(repaired.stdout)["restored"] == [3]
    now = contents(session)
    assert json.loads(now[f"events/{EVENT}"]) == json.loads(before[f"events/{EVENT}"])
    assert now.keys() == before.keys()
    goes_on(agent, session)


@pytest.mark.parametrize(
    "body", [b"garbage", b"[]", b"{}", b"[1, 2]", b"[" + b",".join([b'{"id": 7}'] * 100) + b"]"]
)
def test_a_page_that_holds_something_else_under_a_right_digest_is_ignored(agent, load, body):
    session = load("long")
    pages = session / "event_cache"
    (pages / "0-99.json").write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    (session / "state.pkl").unlink()
    listed(agent, session)
    assert "look around" in agent("sessions", "show", session.name).stdout
    goes_on(agent, session)


def test_a_repair_that_has_nothing_to_do_changes_nothing(agent, load):
    session = load("long")
    before = contents(session)
    assert agent("sessions", "repair", session.name).returncode == 0
    assert contents(session) == before
    goes_on(agent, session)


@pytest.mark.parametrize("damage", [garbage, empty, fifo, folder])
def test_a_damaged_last_event_is_set_aside(agent, load, damage):
    session = load("short")
    newest = max((session / "events").iterdir())
    damage(newest)
    assert agent("sessions", "show", session.name).returncode == 0
    listed(agent, session)
    goes_on(agent, session)
    assert newest.with_suffix(".torn").exists()


@pytest.mark.parametrize(
    "change", [{"schema_version": 99}, {"observation": "telepathy"}], ids=["version", "type"]
)
def test_what_a_newer_version_wrote_can_be_seen_and_is_not_written_to(agent, load, change):
    session = load("short")
    newest = max((session / "events").iterdir())
    newest.write_text(json.dumps(json.loads(newest.read_text()) | change))
    (session / "state.pkl").unlink()
    refused(agent, session, "newer version", "upgrade")
    listed(agent, session)
    shown = agent("sessions", "show", session.name)
    assert shown.returncode == 0
    assert "look around" in shown.stdout


class Runs:
    """A pickle of it calls `function` when it is read."""

    def __init__(self, function: object, *arguments: object) -> None:
        self.reduction = function, arguments

    def __reduce__(self):
        return self.reduction


def hostile_states(canary: Path) -> dict[str, bytes]:
    """Bodies that pass the digest and should still be refused."""
    touch = f"open({str(canary)!r}, 'w').close()"
    shell = f"touch {canary}"
    return {
        "system": pickle.dumps(Runs(os.system, shell)),
        "eval": pickle.dumps(Runs(eval, touch)),
        "text protocol": f"cos\nsystem\n(S'{shell}'\ntR.".encode(),
        "nested": pickle.dumps({"title": [{"deep": (Runs(os.system, shell),)}]}),
        "state": pickle.dumps({"schema_version": 1, "grants": Runs(os.system, shell)}),
        "instance": f"(S'{shell}'\nios\nsystem\n.".encode(),
        "object": f"(cos\nsystem\nS'{shell}'\no.".encode(),
        "stack global": b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c"
        + bytes([len(shell)]) + shell.encode() + b"\x85R.",
        "global only": b"cbuiltins\nexec\n.",
        "persistent id": b"Pnowhere\n.",
        "extension": b"\x80\x02\x82\x01.",
        "memo bomb": b"\x80\x04]" + b"\x94".join(b"(h\x00h\x00e" for _ in range(9)) + b".",
        "many lists": b"\x80\x04" + b"]" * 1_000_000 + b".",
        "huge length": b"\x80\x04\x8d" + (2**60).to_bytes(8, "little") + b"x.",
        "truncated": pickle.dumps({"title": "x" * 100})[:40],
        "not a state": pickle.dumps(["a", "list"]),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "right_digest"),
    [*((shape, True) for shape in hostile_states(Path("/canary"))), ("system", False)],
)
def test_a_hostile_state_file_is_ignored(agent, load, tmp_path, shape, right_digest):
    session = load("short")
    canary = tmp_path / "canary"
    body = hostile_states(canary)[shape]
    digest = hashlib.sha256(body).digest() if right_digest else b""
    (session / "state.pkl").write_bytes(digest + body)
    listed(agent, session)
    goes_on(agent, session)
    assert not canary.exists()


def state_link(path: Path) -> None:
    target = path.parents[3] / "mine.txt"
    target.write_text("mine")
    path.unlink()
    path.symlink_to(target)


def state_of_others(path: Path) -> None:
    path.chmod(0o666)


@pytest.mark.parametrize("odd", [state_link, fifo, folder, state_of_others, garbage])
def test_a_state_file_that_is_none_is_ignored(agent, load, odd):
    session = load("short")
    odd(session / "state.pkl")
    listed(agent, session)
    goes_on(agent, session)
    mine = session.parents[2] / "mine.txt"
    assert not mine.exists() or mine.read_text() == "mine"


@as_root
@pytest.mark.parametrize("part", ["state.pkl", "."])
def test_what_belongs_to_another_user_is_not_believed(agent, load, part):
    session = load("short")
    for path in [session / part, *(session.rglob("*") if part == "." else [])]:
        os.chown(path, NOBODY, NOBODY)
    if part == ".":
        refused(agent, session, str(session), str(NOBODY))
        listed(agent, session)
        shown = agent("sessions", "show", session.name)
        assert shown.returncode == 1
        assert str(NOBODY) in shown.stderr
    else:
        goes_on(agent, session)


@pytest.mark.parametrize("part", [".", "events"])
@pytest.mark.parametrize("mode", [0o770, 0o707], ids=["group", "world"])
def test_what_others_can_write_to_is_not_believed(agent, load, part, mode):
    session = load("short")
    (session / part).chmod(mode)
    refused(agent, session, str(session / part))
    listed(agent, session)
    assert agent("sessions", "show", session.name).returncode == 1


@pytest.mark.parametrize("part", ["events", "."])
def test_a_link_in_place_of_a_folder_is_refused(agent, load, tmp_path, part):
    session = load("short")
    target = tmp_path / "elsewhere"
    (session / part).resolve().rename(target)
    session.joinpath(part).symlink_to(target)
    done = agent("resume", session.name, "go on")
    assert done.returncode == 1, done.stderr
    assert str(session) in done.stderr
    assert agent("sessions", "list", "--all").returncode == 0


def test_the_lock_of_a_living_process_is_respected(agent, load):
    session = load("short")
    with (session / "session.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(json.dumps({"pid": os.getpid(), "host": "here", "since": "today"}))
        lock.flush()
        refused(agent, session, f"process {os.getpid()}", code=2)
        listed(agent, session)
        assert agent("sessions", "show", session.name).returncode == 0
        assert agent("sessions", "repair", session.name).returncode == 2


@pytest.mark.parametrize("left", ['{"pid": 999999999, "host": "x"}', "", "[]", "\x00" * 5000])
def test_the_lock_file_of_a_dead_process_locks_nobody_out(agent, load, left):
    session = load("short")
    (session / "session.lock").write_text(left)
    listed(agent, session)
    goes_on(agent, session)


def test_a_lock_file_that_is_a_link_does_no_harm(agent, load, tmp_path):
    session = load("short")
    precious = tmp_path / "precious"
    precious.write_text("keep me")
    (session / "session.lock").unlink()
    (session / "session.lock").symlink_to(precious)
    refused(agent, session, "session.lock")
    listed(agent, session)
    assert precious.read_text() == "keep me"


NAMESPACE = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]


def can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    test = [*NAMESPACE, "sh", "-c", "mount -t tmpfs none /mnt"]
    return subprocess.run(test, capture_output=True).returncode == 0


mounts = pytest.mark.skipif(not can_mount(), reason="nothing can be mounted here")


def in_namespace(agent: Agent, script: str, *arguments: str) -> dict[str, str]:
    """Run a shell script in which mounts are its own, with `agent` as a command; what it left in
    `$OUT`, by file name."""
    out = agent.workspace.parent / "out"
    out.mkdir()
    prelude = f'agent() {{ {sys.executable} -m agentcli "$@"; }}\n'
    done = subprocess.run(
        [*NAMESPACE, "sh", "-euc", prelude + script, "sh", *arguments],
        cwd=agent.workspace,
        env={**agent.environment, "OUT": str(out)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return {path.name: path.read_text() for path in out.iterdir() if path.is_file()}


def runs(events: dict[str, bytes]) -> int:
    """How many commands are recorded to have been carried out."""
    return sum(json.loads(body).get("observation") == "run" for body in events.values())


@pytest.mark.campaign
@mounts
def test_a_disk_that_fills_up(agent, serve):
    """With the room that was set aside the end is recorded; with new room it goes on."""
    commands = (f"echo once >> effects; seq {n} 9000" for n in range(9))
    steps = [Reply("", [Call("bash", {"command": command})]) for command in commands]
    agent.use(serve([*steps, Reply("done")]))
    left = in_namespace(
        agent,
        """
        mkdir -p "$AGENT_HOME"; mount -t tmpfs -o size=480k none "$AGENT_HOME"
        agent run fill > "$OUT/answer" 2> "$OUT/complaint" || echo $? > "$OUT/code"
        cp effects "$OUT/effects"
        cp -R "$AGENT_HOME/sessions" "$OUT/sessions"
        mount -o remount,size=50m "$AGENT_HOME"
        agent resume --last > "$OUT/answer" 2> "$OUT/later" || true
        cp -R "$AGENT_HOME/sessions" "$OUT/sessions-later"
        """,
    )
    assert left["code"] == "1\n"
    assert "Traceback" not in left["complaint"]
    assert all(w in left["complaint"] for w in ("No space left", "events", "kB free", "resume"))
    out = agent.workspace.parent / "out"
    early = {path.name: path.read_bytes() for path in out.glob("sessions/*/events/*.json")}
    late = {path.name: path.read_bytes() for path in out.glob("sessions-later/*/events/*.json")}
    newest = json.loads(early[max(early)])
    assert newest["extras"]["agent_state"] == "error"
    assert early.items() <= late.items()
    assert left["answer"] == "done\n", left["later"]
    assert 0 < left["effects"].count("once") == runs(early) < 9
    assert (agent.workspace / "effects").read_text().count("once") == runs(late)


@mounts
def test_a_read_only_disk_is_named_and_can_be_read(agent, load):
    session = load("short")
    before = contents(session)
    left = in_namespace(
        agent,
        """
        mount --bind "$1" "$1"; mount -o remount,ro,bind "$1"
        agent resume "${1##*/}" more > "$OUT/answer" 2> "$OUT/complaint" || echo $? > "$OUT/code"
        agent sessions show "${1##*/}" > "$OUT/shown"
        agent sessions list --all > "$OUT/listed"
        """,
        str(session),
    )
    assert left["code"] == "1\n"
    assert "Read-only file system" in left["complaint"]
    assert str(session) in left["complaint"]
    assert "look around" in left["shown"]
    assert session.name in left["listed"]
    assert contents(session) == before
