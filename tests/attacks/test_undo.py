"""What commands destroyed in a repository comes back by `agent undo`, whole and as it was, or what
can't is said; and what they planted does not."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

from tests.app.undoing import Looks, looks, sh
from tests.attacks.raids import Arena, bash, every_side, in_turn
from tests.conftest import LIMIT_S
from tests.server import Reply

DESTROYERS = {
    "find all": "find . -delete",
    "find files": "find . -type f -delete",
    "rm": 'rm -rf "$PWD"',
    "rmtree": "python3 -c \"import shutil; shutil.rmtree('.', ignore_errors=True)\"",
    "make clean": "printf 'clean:\\n\\trm -rf .git *\\n' > makefile; make clean",
    "objects and refs": "rm -rf .git/objects .git/refs .git/packed-refs .git/logs",
    "an index and a head": "echo garbage > .git/index; echo garbage > .git/HEAD",
    "garbage collected": "git stash drop; git branch -D topic; "
    "git reflog expire --expire=now --all; git gc -q --prune=now",
}
OVERWRITE = (
    "import os, zlib\n"
    "for top, _, names in os.walk('.git/objects'):\n"
    "    for path in [os.path.join(top, name) for name in names]:\n"
    "        os.chmod(path, 0o644)\n"
    "        with open(path, 'r+b') as file:\n"
    "            size = len(file.read())\n"
    "            file.seek(0)\n"
    "            file.write({bytes})\n"
)
OVERWRITES = {
    "a blob of their own": "zlib.compress(b'blob 6\\0theirs').ljust(size, b'x')[:size]",
    "garbage": "b'x' * size",
    "a pack of their own": "b'PACK' + b'theirs' * size",
}


def furnish(place: Arena) -> Looks:
    """A repository in which a stash, a branch and a staged change can be lost."""
    sh(
        place.workspace,
        "git branch topic; git tag -a v1 -m v1; echo 2 > first; git commit -qam second;"
        "echo stashed > first; git stash -q; echo staged > new; git add new; echo loose > u",
    )
    place.hand_over()
    return seen(place)


def seen(place: Arena) -> Looks:
    return looks(place.workspace)


def attack(place: Arena, *commands: str) -> None:
    # By a program, as what a shell is told is judged too.
    programs = [f"python3 -c {shlex.quote(f'import os; os.system({c!r})')}" for c in commands]
    replies = [Reply("", [bash(program)]) for program in programs]
    run = place.run([*replies, Reply("Done.")], "--approval", "yolo")
    assert run.exit_code == 0, run.stderr


def go_back(place: Arena, *arguments: str) -> tuple[int, str]:
    process = place.agent.start(*arguments)
    out, err = process.communicate(timeout=LIMIT_S)
    assert "Traceback" not in err.decode(), err.decode()
    return process.returncode, out.decode() + err.decode()


@in_turn("destroyer", DESTROYERS)
def test_a_destroyed_repository_is_undone(arena, layer, user, destroyer):
    place = arena(layer, user)
    before = furnish(place)
    assert before.git[-1][0] == 0
    attack(place, DESTROYERS[destroyer])
    assert seen(place) != before, "the attempt is a real one"
    code, told = go_back(place, "undo")
    assert code == 0, told
    assert seen(place) == before


@in_turn(
    "content, packed",
    [("a blob of their own", False), ("garbage", False), ("a pack of their own", True)],
)
def test_objects_that_were_overwritten_are_not_believed(arena, layer, user, content, packed):
    place = arena(layer, user)
    before = furnish(place)
    if packed:
        sh(place.workspace, "git gc -q")
        place.hand_over()
        before = seen(place)
    code = OVERWRITE.replace("{bytes}", OVERWRITES[content])
    attack(place, f"python3 - <<'E'\n{code}E\nrm -f first new u")
    assert seen(place) != before
    done, told = go_back(place, "undo")
    assert done == 0, told
    assert seen(place) == before
    assert "theirs" not in (place.workspace / "first").read_text()


@every_side
def test_a_checkpoint_shares_no_file_with_the_repository(arena, layer, user):
    place = arena(layer, user)
    furnish(place)
    sh(place.workspace, "git repack -q")
    place.hand_over()
    names = {p: p.stat().st_nlink for p in (place.workspace / ".git").rglob("*") if p.is_file()}
    attack(place, "echo x > x")
    assert {path: path.stat().st_nlink for path in names} == names


@every_side
def test_a_person_who_committed_meanwhile_loses_nothing(arena, layer, user):
    place = arena(layer, user)
    furnish(place)
    attack(place, "git config user.name; git branch theirs; echo x > first")
    sh(place.workspace, "git commit -qam mine")
    place.hand_over()
    mine = seen(place)
    code, told = go_back(place, "undo")
    if code == 0:
        assert seen(place).git[3] == mine.git[3], "the commit is where it was"
    else:
        assert "changed since by somebody else" in told
        assert seen(place) == mine


PLANTS = (
    "mkdir -p .git/hooks; printf '#!/bin/sh\\n: > ran' > .git/hooks/post-checkout;"
    "chmod +x .git/hooks/post-checkout",
    "mkdir .git/rebase-merge; printf 'exec : > ran\\n' > .git/rebase-merge/git-rebase-todo",
    "git init -q monitored; git -C monitored config core.fsmonitor ': > ../ran #'",
    "git init -q hooked; mkdir -p hooked/.git/hooks;"
    "printf '#!/bin/sh\\n: > ../ran' > hooked/.git/hooks/post-checkout;"
    "chmod +x hooked/.git/hooks/post-checkout",
    "cp -r .git evil; git -C evil config core.fsmonitor ': > ran #'; mkdir led;"
    "echo 'gitdir: ../evil' > led/.git",
    "git init -q fine; git -C fine commit -q --allow-empty -m fine",
    "id=$(git hash-object -w --stdin </dev/null);"
    "git update-index --add --cacheinfo 100644,$id,Aqqq/ran",
    "python3 -c \"path = '.git/index'; data = open(path, 'rb').read(); "
    "open(path, 'wb').write(data.replace(b'Aqqq/ran', b'.git/ran'))\"",
    # From here on git finds nothing of its own.
    "echo ../evil > .git/commondir",
)
CLEAN = (
    "rm -rf hooked monitored led evil fine .git/hooks/post-checkout .git/commondir "
    ".git/rebase-merge; git status"
)


def powers(workspace: Path) -> set[str]:
    """What would run a program or lead git elsewhere."""
    names = ("hooks/post-checkout", ".git/commondir", "git-rebase-todo", "led/.git")
    found = {str(p) for p in workspace.rglob("*") if ".git" in p.parts and str(p).endswith(names)}
    settings = [p for p in workspace.glob("*/.git/config") if "ran" in p.read_text()]
    settings += [p for p in workspace.glob(".git/index") if b".git/ran" in p.read_bytes()]
    return {os.path.relpath(path, workspace) for path in (*found, *settings)}


@every_side
def test_going_back_brings_no_program_of_theirs_back(arena, layer, user):
    """It was there between two commands and was taken away before the person's git came by."""
    place = arena(layer, user)
    furnish(place)
    place.agent.env |= {"GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@t"}
    place.agent.env |= {"GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@t"}
    attack(place, "; ".join(PLANTS), CLEAN)
    assert powers(place.workspace) == set()
    session = next((place.home / "state/sessions").glob("2*-*-????"))
    events = [json.loads(path.read_bytes()) for path in sorted((session / "events").iterdir())]
    between = str([event["id"] for event in events if event.get("observation") == "checkpoint"][1])
    place.base.chmod(0o777)
    copy = place.base / "copy"
    ways = [
        (["fork", session.name, "--dir", str(copy), "--at", between], copy),
        (["undo", "--session", session.name], place.workspace),
        (["rewind", session.name, "--to", between], place.workspace),
    ]
    for arguments, target in ways:
        code, told = go_back(place, *arguments)
        assert code == 0, told
        assert powers(target) == set()
        assert "commands may have made it" in told
        assert "monitored/.git/config" in told
        assert ".git/index" in told
        assert sh(target / "fine", "git log --format=%s").stdout == b"fine\n", told
