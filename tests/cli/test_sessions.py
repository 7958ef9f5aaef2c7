"""`agent sessions …` at the binary: finding, naming, removing and carrying sessions."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pexpect
import pytest

from agentcli.sessions.session import SessionLog, read_session
from agentcli.sessions.store import SessionLock
from agentcli.ui.text import cells
from tests.conftest import LIMIT_S
from tests.server import Call, Reply
from tests.sessions.test_index import said, started

BOLD_WORD = "\x1b[1mneedle\x1b[0m"


@pytest.fixture
def add(agent):
    """Put a session on disk, as old as its id says."""

    def add(session_id: str, *texts: str, workspace: str | None = None, name: str | None = None):
        folder = agent.home / "state" / "sessions" / session_id
        first = started(session_id, workspace or str(agent.workspace))
        with SessionLog.create(folder) as session:
            session.emit(first.model_copy(update={"name": name}))
            for text in texts:
                session.emit(said(text))
        return folder

    return add


@pytest.fixture
def at_terminal(agent):
    """Run `agent sessions …` at a terminal so many columns wide; `answers` are typed when asked."""

    def run(*arguments: str, columns: int = 80, answers: str = "") -> tuple[int, str]:
        child = agent.spawn("sessions", *arguments, columns=columns)
        shown = ""
        if answers:
            child.expect_exact("[y/N]")
            shown = child.before
            child.sendline(answers)
        child.expect(pexpect.EOF)
        child.close()
        return child.exitstatus, shown + child.before

    return run


def ids(agent) -> list[str]:
    return [folder.name for folder in agent.sessions]


def make_old(folder: Path, day: str) -> None:
    """As if all of it had happened on `day`."""
    for path in (folder / "events").iterdir():
        text = re.sub(r'"timestamp":"[0-9-]{10}', f'"timestamp":"{day}', path.read_text())
        path.write_text(text)
    (folder / "state.pkl").unlink()


def bare(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_the_list_fits_the_terminal(add, at_terminal):
    add("20260101-000000-aaaa", "short")
    add("20260102-000000-bbbb", "任务" * 60 + "\n\x1b[2Jmore", name="mine")
    add("20260103-000000-cccc", "elsewhere " * 30, workspace="/a/very/long/path" * 6)
    for columns in (80, 120):
        code, shown = at_terminal("list", "--all", columns=columns)
        rows = shown.splitlines()
        assert code == 0
        assert [row[:20] for row in map(bare, rows)] == [
            "20260103-000000-cccc",
            "20260102-000000-bbbb",
            "20260101-000000-aaaa",
        ]
        assert all(cells(bare(row)) < columns for row in rows)
        assert "mine: 任务" in bare(shown)
        assert "\x1b[2J" not in shown
        assert bare(rows[0]).endswith("long/path")


def test_the_list_for_programs(agent, add):
    add("20260101-000000-aaaa", "one\ntwo")
    add("20260102-000000-bbbb", "x" * 80, name="mine")
    lines = agent("sessions", "list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["20260102-000000-bbbb", "20260101-000000-aaaa"]
    assert lines[0].endswith(f"mine: {'x' * 80}")
    listed = json.loads(agent("sessions", "list", "--json", "--limit", "1").stdout)
    assert [entry["name"] for entry in listed] == ["mine"]


def test_search_over_what_a_run_left(agent, serve):
    script = [Reply("Look.", [Call("bash", {"command": "echo in the hay"})]), Reply("A needle!")]
    agent.use(serve(script))
    agent("run", "where is it?")
    done = agent("sessions", "search", "needle")
    assert done.returncode == 0
    assert done.stdout.count("\n") == 1
    assert done.stdout.startswith(ids(agent)[0])
    assert done.stdout.endswith("A needle!\n")
    hits = json.loads(agent("sessions", "search", "hay", "--json").stdout)
    assert {hit["kind"] for hit in hits} == {"call", "result"}
    events = read_session(agent.sessions[0]).events
    assert all("hay" in str(events[hit["event_id"]]) for hit in hits)
    for hit in hits:
        assert [hit["snippet"][start:end] for start, end in hit["marks"]] == ["hay"]
    index = agent.home / "state" / "index.sqlite"
    assert index.stat().st_mode & 0o777 == 0o600
    assert agent("sessions", "search", "needle", cwd=agent.home).returncode == 1
    assert agent("sessions", "search", "needle", "--all", cwd=agent.home).returncode == 0


def test_what_was_folded_can_be_seen_in_full_afterwards(agent, serve):
    script = "cat <<'EOF'\n" + "".join(f"row {n}\n" for n in range(20)) + "EOF\nseq 20000"
    agent.use(serve([Reply("", [Call("bash", {"command": script})]), Reply("Done.")]))
    ran = agent("run", "count")
    assert "row 6\n    … +15 lines\n" in ran.stderr
    shown = agent("sessions", "show").stdout
    number = re.search(r"… \+15 lines, --event (\d+)", shown)[1]
    assert f"… +20,017 lines, --event {number}\n" in shown
    whole = agent("sessions", "show", "--event", number).stdout
    assert script in whole
    assert "\n    19999\n    20000\n" in whole
    assert "…" not in whole
    assert "19999\n" in agent("sessions", "show", "--full").stdout
    events = json.loads(agent("sessions", "show", "--event", number, "--json").stdout)
    assert events[0]["id"] == int(number)
    missing = agent("sessions", "show", "--event", "999")
    assert missing.returncode == 2
    assert "there is no event 999" in missing.stderr


def test_a_search_marks_the_words_at_a_terminal_only(agent, add, at_terminal):
    add("20260101-000000-aaaa", "a needle in \x1b[2J hay")
    assert BOLD_WORD in at_terminal("search", "needle")[1]
    assert "\x1b[2J" not in at_terminal("search", "needle")[1]
    assert "\x1b" not in agent("sessions", "search", "needle").stdout


def test_a_search_without_hits(agent, add):
    add("20260101-000000-aaaa", "hay")
    done = agent("sessions", "search", "needle", "--json", "--rebuild")
    assert (done.returncode, json.loads(done.stdout)) == (1, [])
    assert "nothing found" in agent("sessions", "search", "needle").stderr


@pytest.mark.parametrize("query", ['"', "AND", "-- -x", "foo:bar", "NEAR(", "* OR", "a\udcff"])
def test_whatever_is_searched_for_there_is_an_answer(agent, add, query):
    add("20260101-000000-aaaa", "hay")
    done = agent("sessions", "search", *query.split())
    assert done.returncode in (1, 2)
    assert done.stderr.startswith("agent: ") or "nothing found" in done.stderr


def test_searches_at_the_same_time_do_not_hurt_each_other(agent, add):
    for number in range(5):
        add(f"20260101-000000-000{number}", *["needle"] * 20)
    searches = [agent.start("sessions", "search", "needle", "-n", "100") for _ in range(3)]
    for process in searches:
        out, err = process.communicate(timeout=LIMIT_S)
        assert out.count(b"\n") == 100, err


def test_a_session_gets_a_name_of_its_own(agent, add):
    add("20260101-000000-aaaa", "one")
    add("20260102-000000-bbbb", "two")
    assert agent("sessions", "rename", "20260101", "fix login").returncode == 0
    row = json.loads(agent("sessions", "rename", "20260101", "fix login", "--json").stdout)
    assert row["name"] == "fix login"
    assert "one" in agent("sessions", "show", "fix login").stdout
    taken = agent("sessions", "rename", "20260102", "fix login")
    assert taken.returncode == 2
    assert "20260101-000000-aaaa" in taken.stderr


@pytest.mark.parametrize("name", ["", "  ", "x" * 61, "a\nb", "\x1b[2J", "20260101", "a/b"])
def test_not_everything_can_be_a_name(agent, add, name):
    folder = add("20260101-000000-aaaa", "one")
    done = agent("sessions", "rename", "20260101", name)
    assert done.returncode == 2
    assert len(read_session(folder).events) == 2


def test_rm_asks_first(agent, add, at_terminal):
    add("20260101-000000-aaaa", "one")
    refused = agent("sessions", "rm", "20260101")
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    code, shown = at_terminal("rm", "20260101", answers="n")
    assert code == 0
    assert "one" in shown
    assert "nothing was removed" in shown
    assert ids(agent) == ["20260101-000000-aaaa"]
    at_terminal("rm", "20260101", answers="y")
    assert ids(agent) == []


def test_rm_takes_all_or_none_and_follows_no_link(agent, add, tmp_path):
    folder = add("20260101-000000-aaaa", "one")
    add("20260102-000000-bbbb", "two")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    (folder / "outputs" / "link").symlink_to(outside)
    sealed = folder / "shell"
    sealed.mkdir()
    (sealed / "rc").touch()
    sealed.chmod(0o500)
    assert agent("sessions", "rm", "20260101", "absent", "--yes").returncode == 2
    assert len(ids(agent)) == 2
    done = agent("sessions", "rm", "20260101", "--yes", "--json")
    told = json.loads(done.stdout)
    assert [entry["session_id"] for entry in told["sessions"]] == ["20260101-000000-aaaa"]
    assert told["bytes"] > 0
    assert ids(agent) == ["20260102-000000-bbbb"]
    assert (outside / "kept").exists()
    assert list((agent.home / "state" / "sessions.scrap").iterdir()) == []


def test_what_has_a_name_elsewhere_too_is_not_freed(agent, add, tmp_path):
    folder = add("20260101-000000-aaaa", "one")
    (tmp_path / "pack").write_bytes(os.urandom(1_000_000))
    os.link(tmp_path / "pack", folder / "outputs" / "pack")
    done = agent("sessions", "rm", "20260101", "--yes", "--json")
    assert 0 < json.loads(done.stdout)["bytes"] < 1_000_000


def test_a_session_in_use_stays(agent, add):
    folder = add("20260101-000000-aaaa", "one")
    lock = SessionLock(folder)
    try:
        done = agent("sessions", "rm", "20260101", "--yes")
        assert done.returncode == 2
        assert f"in use by process {os.getpid()}" in done.stderr
        assert agent("sessions", "prune", "--keep", "0", "--yes").returncode == 0
    finally:
        lock.release()
    assert ids(agent) == ["20260101-000000-aaaa"]


@pytest.mark.parametrize(
    ("options", "left"),
    [
        (["--older-than", "30d"], "bcen"),
        (["--keep", "2"], "en"),
        (["--keep", "1", "--older-than", "8w"], "bcen"),
        (["--empty"], "abcn"),
        (["--keep", "0"], "n"),
        (["--keep", "0", "--named"], ""),
        (["--keep", "0", "--all"], ""),
    ],
)
def test_prune_keeps_what_it_should(agent, add, options, left):
    make_old(add("20240101-000000-000a", "old"), "2024-01-01")
    add("20260102-000000-000b", "new")
    add("20260103-000000-000c", "newer")
    add("20260104-000000-000e")
    folder = add("20260105-000000-000f", "mine", name="n")
    if "--all" in options:
        folder.rename(folder.with_name("other"))
        shutil.rmtree(folder.with_name("other"))
        add("20260105-000000-000f", "there", workspace="/elsewhere")
    wanted = ["sessions", "prune", *options]
    before = ids(agent)
    dry = json.loads(agent(*wanted, "--dry-run", "--json").stdout)
    assert ids(agent) == before
    assert agent(*wanted).returncode == (2 if dry["sessions"] else 0)
    done = json.loads(agent(*wanted, "--yes", "--json").stdout)
    assert done["sessions"] == dry["sessions"]
    assert "".join(name[-1] for name in ids(agent)).replace("f", "n") == left


@pytest.mark.parametrize(
    "options", [[], ["--older-than", "soon"], ["--older-than", "9" * 99 + "d"]]
)
def test_prune_wants_to_know_what(agent, add, options):
    add("20260101-000000-aaaa", "one")
    assert agent("sessions", "prune", *options, "--yes").returncode == 2
    assert len(ids(agent)) == 1


def test_export_and_import_carry_a_session(agent, serve, tmp_path):
    agent.use(serve([Reply("", [Call("bash", {"command": "echo hi"})]), Reply("Said.")]))
    agent("run", "say hi")
    file = tmp_path / "out.jsonl"
    done = agent("sessions", "export", "-f", "jsonl", "-o", str(file))
    assert (done.returncode, done.stdout) == (0, "")
    assert file.stat().st_mode & 0o777 == 0o600
    imported = agent("sessions", "import", str(file))
    assert imported.returncode == 0, imported.stderr
    new_id = imported.stdout.strip()
    events = [
        json.loads(agent("sessions", "show", session_id, "--json").stdout)["events"]
        for session_id in (ids(agent)[0], new_id)
    ]
    assert events[0][1:] == events[1][1:]
    assert agent("sessions", "search", "Said", "--json").returncode == 0
    shown = agent("sessions", "export", new_id, "--format", "markdown").stdout
    assert "```sh\necho hi\n```" in shown


def test_exports_hold_no_keys_and_no_escapes_and_keep_their_letters(agent, add):
    agent.env["DEPLOY_TOKEN"] = "correct-horse-battery"
    agent.env["LANG"] = "C"
    add("20260101-000000-aaaa", "the token is correct-horse-battery, señor \x1b[2J\x9b2J")
    for form in ("json", "jsonl", "markdown"):
        text = agent("sessions", "export", "20260101", "-f", form).stdout
        assert "horse" not in text
        assert "señor" in text
        assert not {"\x1b", "\x9b"}.intersection(text)


def test_a_damaged_session_exports_what_is_intact(agent, add):
    folder = add("20260101-000000-aaaa", "one", "two", "three")
    (folder / "events" / "000000002.json").write_text("{")
    done = agent("sessions", "export", "20260101")
    assert done.returncode == 1
    assert [event["id"] for event in json.loads(done.stdout)["events"]] == [0, 1]
    assert "up to event 1" in done.stderr


def test_a_full_disk_behind_stdout_is_told(agent, add):
    add("20260101-000000-aaaa", *["x" * 10_000] * 20)
    with open("/dev/full", "wb") as full:
        process = agent.start("sessions", "export", "20260101", stdout=full)
        _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1
    assert b"stdout can't be written" in err


def test_an_export_goes_through_pipes_and_links_and_replaces_neither(agent, add, tmp_path):
    add("20260101-000000-aaaa", "one")
    pipe, link, target = tmp_path / "pipe", tmp_path / "link", tmp_path / "target"
    os.mkfifo(pipe)
    link.symlink_to(target)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for place in (pipe, link):
        assert agent("sessions", "export", "20260101", "-o", str(place)).returncode == 0
    assert json.loads(os.read(reader, 1 << 20)) == json.loads(target.read_text())
    os.close(reader)
    assert pipe.is_fifo()
    assert link.is_symlink()


def test_an_export_that_can_not_be_written_leaves_nothing(agent, add, tmp_path):
    add("20260101-000000-aaaa", "one")
    done = agent("sessions", "export", "20260101", "-o", str(tmp_path / "absent" / "file"))
    assert done.returncode == 1
    assert "can't be written" in done.stderr
    (tmp_path / "folder").mkdir()
    assert agent("sessions", "export", "20260101", "-o", str(tmp_path / "folder")).returncode == 1
    assert [entry.name for entry in tmp_path.iterdir() if "tmp" in entry.name] == []


def test_an_import_that_fails_leaves_nothing(agent, tmp_path):
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "000000000.json").symlink_to("/etc/passwd")
    done = agent("sessions", "import", str(tmp_path), "--json")
    assert done.returncode == 1
    assert "not a plain file" in json.loads(done.stdout)["error"]["message"]
    assert ids(agent) == []


def test_an_import_says_what_was_left_behind(agent, add, tmp_path):
    add("20260101-000000-aaaa", "one", name="mine")
    folder = agent.sessions[0]
    moved = shutil.copytree(folder, tmp_path / "theirs")
    done = agent("sessions", "import", str(moved), "--json")
    told = json.loads(done.stdout)
    assert told["name"] is None
    assert "20260101-000000-aaaa" in told["notes"][0]
    assert told["events"] == 2


def test_every_command_has_help_and_no_heavy_import_at_the_start(agent):
    names = ("list", "show", "search", "rename", "rm", "prune", "export", "import", "repair")
    for name in names:
        assert "Usage: agent sessions" in agent("sessions", name, "--help").stdout
    program = (
        "import sys\nfrom agentcli.cli import command_tree\n"
        "print(*sorted({'sqlite3', 'tarfile', 'zipfile', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [agent.command[0], "-c", program], capture_output=True, text=True, env={**os.environ}
    )
    assert done.stdout == "\n", done.stderr


def test_deep_folders_of_a_session_stop_no_command(agent, serve):
    """Neither listing and removing the session, nor what comes after."""
    nest = "import os\nfor _ in range(1200): os.mkdir('d'); os.chdir('d')"
    command = f'cd "$TMPDIR" && mkdir -m 0 closed && python3 -c "{nest}"; touch /tmp/left'
    agent.use(serve([Reply("", [Call("bash", {"command": command})]), Reply("Done.")]))
    done = agent("run", "--yolo", "nest")
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    [session] = agent.sessions
    dry = agent("sessions", "prune", "--keep", "0", "--dry-run")
    assert (dry.returncode, session.name in dry.stdout) == (0, True), dry.stderr
    gone = agent("sessions", "rm", "--yes", session.name)
    assert gone.returncode == 0, gone.stderr
    assert agent.sessions == []
    assert list((agent.home / "state" / "sessions.scrap").iterdir()) == []
    assert agent("sessions", "list").returncode == 0


def test_upkeep_that_fails_is_logged_and_stops_no_command(agent, serve):
    left = agent.home / "state" / "sessions.scrap" / "copy-00000000"
    left.mkdir(parents=True)
    (left / "draft.json").write_text("[" * 100_000)
    done = agent.use(serve([Reply("Done.")]))("run", "do it")
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    assert "internal error" not in done.stderr
    assert "RecursionError" in (agent.home / "state" / "log").read_text()
