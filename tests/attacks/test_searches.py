"""Attempts to have grep and glob show what is hidden, or never come back. Each with ripgrep and
without, for both must hold."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from tests.attacks.raids import NOBODY, bash, sides_for
from tests.server import Call

SIDES = [*sides_for(__name__), ("none", "self")]
STALLED_S = 25
"""What waits for a FIFO or reads a device is given up after 30."""


@pytest.fixture(params=["ripgrep", "python"])
def place(request, arena):
    """An arena with the programs of the machine, with ripgrep or without."""
    found = shutil.which("rg")
    if request.param == "ripgrep" and found is None:
        pytest.skip("ripgrep is not installed")

    def make(layer, user):
        where = arena(layer, user)
        if request.param == "python" and found is not None:
            where.agent.env["PATH"] = all_but_ripgrep(where.base / "programs")
        return where

    return make


def all_but_ripgrep(programs: Path) -> str:
    programs.mkdir()
    for folder in map(Path, (os.defpath + ":" + os.environ["PATH"]).split(":")):
        for program in folder.iterdir() if folder.is_dir() else ():
            link = programs / program.name
            if program.name != "rg" and not link.is_symlink():
                link.symlink_to(program)
    return str(programs)


def search(place, *calls: Call, flags: tuple[str, ...] = ()) -> tuple[str, float]:
    """What the model is told of its calls, and how long the run took."""
    began = time.monotonic()
    run = place.does(list(calls), *flags)
    assert run.exit_code == 0, run.stderr
    return "\n".join(run.told), time.monotonic() - began


@pytest.mark.parametrize(("layer", "user"), SIDES)
def test_another_name_of_a_hidden_file_shows_nothing(place, layer, user):
    where = place(layer, user)
    for secret in (".ssh/id_ed25519", ".aws/credentials"):
        os.link(where.home / secret, where.workspace / secret.replace("/", "-"))
    (where.workspace / "folder").mkdir()
    os.link(where.home / ".ssh/id_ed25519", where.workspace / "folder/notes.txt")
    (where.workspace / "link.txt").symlink_to(where.home / ".ssh/id_ed25519")
    (where.workspace / "linked").symlink_to(where.home / ".ssh")
    (where.workspace / "ordinary.txt").write_text("a key of the piano\n")
    told, _ = search(
        where,
        Call("grep", {"pattern": "key"}),
        Call("grep", {"pattern": "key", "files_only": True}),
        Call("grep", {"pattern": "key", "path": "folder/notes.txt"}),
        Call("grep", {"pattern": "key", "path": "linked"}),
        Call("grep", {"pattern": ".", "glob": "*.txt", "context": 3}),
        Call("glob", {"pattern": "**/id_*"}),
    )
    assert "a key of the piano" in told
    assert "ssh key" not in told
    assert "cloud key" not in told


ENDLESS = {
    "a device as .gitignore": lambda path: (path / ".gitignore").symlink_to("/dev/zero"),
    "a FIFO as .gitignore": lambda path: os.mkfifo(path / ".gitignore"),
    "a FIFO as .ignore": lambda path: os.mkfifo(path / ".ignore"),
    "a FIFO as .rgignore": lambda path: os.mkfifo(path / ".rgignore"),
    "a FIFO within": lambda path: os.mkfifo(path / "src.txt"),
    "a device within": lambda path: (path / "src.txt").symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_no_file_holds_a_search_up(place, what):
    where = place("none", "self")
    (where.workspace / "found.txt").write_text("needle\n")
    for folder in (where.workspace, where.workspace / "src"):
        folder.mkdir(exist_ok=True)
        ENDLESS[what](folder)
    (where.workspace / "src/found.txt").write_text("needle\n")
    exclude = where.workspace / ".git/info/exclude"
    exclude.unlink(missing_ok=True)
    exclude.parent.mkdir(exist_ok=True)
    os.mkfifo(exclude)
    # Git itself would wait for it; nothing of this is about what git does.
    told, took = search(
        where,
        Call("grep", {"pattern": "needle"}),
        Call("glob", {"pattern": "*.txt"}),
        flags=("--no-sandbox", "--set", "agent.checkpoints=false"),
    )
    assert told.count("found.txt") == 4
    assert "stopped after" not in told
    assert took < STALLED_S


SWAPPING = """
ln -s {secret} link; echo harmless > file
ln -s {folder} linked; mkdir real; echo harmless > real/id_ed25519
while [ ! -e stop ]; do
    mv -T link x; mv -T file link; mv -T x file
    mv -T linked y; mv -T real linked; mv -T y real
done
"""


@pytest.mark.parametrize(("layer", "user"), SIDES)
def test_a_race_wins_nothing(place, layer, user):
    """A job swaps a file for a link to a secret, and a folder for one to the folder of secrets,
    while they are searched."""
    where = place(layer, user)
    swap = SWAPPING.format(secret=where.home / ".ssh/id_ed25519", folder=where.home / ".ssh")
    told, _ = search(
        where,
        bash(swap, background=True),
        *[Call("grep", {"pattern": "harmless|key"}), Call("glob", {"pattern": "**/id_*"})] * 15,
        bash("touch stop"),
        flags=("--yolo",),
    )
    assert "harmless" in told
    assert "ssh key" not in told


def test_the_arena_gives_what_it_has_away(place):
    """Else a user without rights would be shown nothing for that reason alone."""
    where = place("none", "self")
    if os.getuid() == 0:
        where.agent.user = "nobody"
        where.hand_over()
        assert (where.home / ".ssh/id_ed25519").stat().st_uid == NOBODY
