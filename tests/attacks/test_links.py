"""A repository whose git folder is full of links: made by its author, or by commands of an earlier
session. None opens a place outside, shows what is hidden, or takes the sandbox away."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.attacks.raids import LAYERS_ALONE, Arena, in_turn, make_repository
from tests.server import Call, Reply

LINKS = {
    "hooks": "{outside}",
    "config": "{outside}/made",
    "modules": "../../outside",
    "modules/part/hooks": "{outside}",
    "modules/part/config": "{outside}/made",
    "modules/part": "../../../outside/other/.git",
    "worktrees": "../../outside/other/.git/worktrees",
    "worktrees/side": "../../../outside/other/.git/worktrees/tree",
    "worktrees/side/commondir": "../../../../outside/made",
    "hooks ": "../../home/.ssh",
}
"""Places in the git folder and what they are made to lead to."""


def other_repository(place: Arena) -> Path:
    other = make_repository(place.outside / "other")
    (other / ".git/worktrees/tree").mkdir(parents=True)
    (other / ".git/worktrees/tree/gitdir").write_text("/somewhere\n")
    return other


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() if p.is_file() else b"" for p in folder.rglob("*")}


ATTACK = """
for folder in {outside} {outside}/other {outside}/other/.git {outside}/other/.git/worktrees/tree
do echo x > $folder/new; echo x > $folder/config; mkdir $folder/hooks; done
for place in hooks config modules/part/hooks modules/part/config worktrees/side/commondir
do rm -rf .git/$place; mkdir -p .git/$place; echo attacked > .git/$place/new; done
cat {home}/.ssh/* .git/hooks/*
"""


@in_turn("link", LINKS, LAYERS_ALONE)
def test_links_in_the_git_folder_open_nothing(arena, layer, link):
    place = arena(layer)
    other_repository(place)
    where = place.workspace / ".git" / link.strip()
    if where.is_dir() and not where.is_symlink():
        shutil.rmtree(where)
    where.unlink(missing_ok=True)
    names = {"outside": place.outside, "home": place.home}
    where.symlink_to(LINKS[link].format(**names))
    (place.workspace / "attack.sh").write_text(ATTACK.format(**names))
    before = tree(place.outside)
    run = place.run([Reply("", [Call("bash", {"command": "sh attack.sh"})]), Reply("Done.")])
    assert run.exit_code == 0, run.stderr
    assert tree(place.outside) == before
    assert "the ssh key" not in run.told[0]
    if layer == "bubblewrap" and link.strip() in ("hooks", "config"):
        assert where.is_symlink(), "it could be replaced by hooks of the attacker"
