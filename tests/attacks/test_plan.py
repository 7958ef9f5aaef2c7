"""Plan mode: what "only reads" is held to it by the kernel, whatever a repository says."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.attacks.raids import Arena, bash, every_side
from tests.conftest import LIMIT_S
from tests.server import ModelServer, Reply

READS = (
    *("git status", "git diff", "git log -p", "git show", "git blame first", "git grep -n x"),
    *("git ls-files", "git describe --dirty --always", "git diff HEAD", "ls", "cat first"),
)


def trap(place: Arena) -> None:
    """A repository that names a program wherever reading commands look for one."""
    program = place.workspace / "evil.sh"
    marks = " ".join(f"{folder}/marked" for folder in (place.workspace, place.outside, place.home))
    program.write_text(f"#!/bin/sh\ntouch {marks} 2> /dev/null\ncat 2> /dev/null; exit 0\n")
    program.chmod(0o755)
    (place.workspace / ".gitattributes").write_text("* filter=evil diff=evil\n")
    (place.workspace / "first").write_text("changed\n")
    (place.workspace / ".git/hooks/post-index-change").symlink_to(program)
    with (place.workspace / ".git/config").open("a") as file:
        file.write(f"[core]\n fsmonitor = {program}\n pager = {program}\n")
        file.write(f"[diff]\n external = {program}\n[pager]\n log = {program}\n")
        file.write(f'[diff "evil"]\n textconv = {program}\n[filter "evil"]\n clean = {program}\n')
        file.write(f"[log]\n showSignature = true\n[gpg]\n program = {program}\n")
    place.hand_over()


def snapshot(folder: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


@every_side
def test_reading_commands_change_nothing_in_plan_mode(arena, layer, user):
    place = arena(layer, user)
    trap(place)
    before = snapshot(place.workspace), snapshot(place.outside)
    calls = [bash(command) for command in READS]
    run = place.run([Reply("", calls), Reply("The plan.")], "--approval", "plan")
    assert run.exit_code == 0, run.stderr
    assert (snapshot(place.workspace), snapshot(place.outside)) == before
    assert not (place.home / "marked").exists()
    assert "first" in run.told[-2]
    assert "changed" in run.told[-1]


@every_side
def test_the_model_is_told_what_it_can_write(arena, layer, user):
    place = arena(layer, user)
    run = place.run(
        [Reply("", [bash('env | grep -c "^GIT_OPTIONAL_LOCKS=0$"')]),
         Reply("", [bash("cat first > $TMPDIR/x")]), Reply("The plan.")],
        *("--approval", "plan"),
    )  # fmt: skip
    system = run.requests[0].body["messages"][0]["content"]
    assert f"Commands run in a sandbox ({layer}) that can write only to $TMPDIR;" in system
    assert "plan mode" in system
    assert str(place.workspace) not in system
    assert "can't be changed" not in system
    assert "Not allowed" in run.told[-1]


def test_a_session_that_leaves_plan_mode_is_told(arena):
    place = arena("bubblewrap")
    place.run([Reply("The plan.")], "--approval", "plan")
    make = bash("echo x > made")
    with ModelServer([Reply("", [make]), Reply("Done.")]) as server:
        process = place.agent.use(server).start("resume", "--last", "do it")
        _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, err
    assert f"they write to {place.workspace}" in str(server.requests[0].body["messages"])
    assert (place.workspace / "made").exists()
