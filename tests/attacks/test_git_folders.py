"""Folders that git takes for its own, or that a search for repositories may miss: each is laid by a
real run, then the person goes on by hand. And git folders full of links, made by their author or by
commands of an earlier session, which open nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.attacks.raids import LAYERS_ALONE, USERS, Arena, bash, in_turn, make_repository
from tests.attacks.test_git_traps import every_layer, lay, person, trapped
from tests.sandbox.sandboxes import git

__all__ = ["trapped"]

REPOSITORY = """
out=$(realpath ../outside)
repository() { git init -q "$1" && git -C "$1" config core.fsmonitor "$PWD/payload"; }
"""
HIDDEN = """
touch HEAD objects refs; repository beside
mkdir decoy; touch decoy/HEAD decoy/objects decoy/refs; repository decoy/sub
git init -q crowded; (cd crowded/.git; seq -f X_%.0f 30000 | xargs touch)
git -C crowded config core.fsmonitor $PWD/payload
git init -q hooked; (cd hooked/.git/hooks; seq -f X_%.0f 30000 | xargs touch)
cp payload hooked/.git/hooks/reference-transaction
echo laid
"""
VISITS = """
for d in beside decoy/sub crowded hooked; do git -C $d status; done
git -C hooked commit -q --allow-empty -m x
"""
CLOSED = """
for d in above/sub itself inner; do repository $d; done
(chmod 0 $dot/description
for folder in $dot/hooks $dot/modules/part/hooks; do cp payload $folder/post-checkout; done
chmod 311 $dot/hooks; chmod 555 $dot/modules/part/hooks) 2>/dev/null
chmod 311 above itself inner/.git
echo laid
"""
CLOSED_VISITS = """
for d in above/sub itself inner; do git -C $d status; done
git checkout -q -b mine; git -C part checkout -q -b mine
"""
LINKED = """
git init -q source; git -C source commit -q --allow-empty -m x
git update-index --add --cacheinfo 160000,$(git -C source rev-parse HEAD),new
printf '[submodule "new"]\n\tpath = new\n\turl = ./source\n' >>.gitmodules
ln -s $out/module $dot/modules/new
mkdir -p $dot/worktrees/w $dot/modules/part/worktrees
ln -s $out/first $dot/worktrees/x; ln -s $out/second $dot/modules/part/worktrees/x
echo $out/third/.git >$dot/worktrees/w/gitdir
echo ../.. >$dot/worktrees/w/commondir; cp $dot/HEAD $dot/worktrees/w
for n in $(seq 0 255); do
  d=$(printf '%s/objects/%02x' $dot $n); [ -e $d ] || ln -s $out/objects $d
done
echo laid
"""
FOLDERS = ("module", "first", "second", "third", "objects")
UPKEEP = """
git submodule update --init; git worktree repair; git worktree prune; git -C part worktree prune
for n in 1 2 3; do echo $n >new$n; git add new$n; done; git commit -q -m mine; git gc
"""
PATCHED = """
for n in a b z; do echo $n >af; git add af; git commit -qm $n; done
git format-patch -q -2 HEAD; git reset -q --hard HEAD~1; echo y >af; git commit -qam y
git am 000[12]*
printf " '--build-fake-ancestor=$out/ran-fake'" >$dot/rebase-apply/apply-opt
git diff-tree -p HEAD~2 HEAD~1 >x; cp 0001* $dot/rebase-apply/0002; test -e $dot/rebase-apply
echo laid
"""


@every_layer
@pytest.mark.parametrize(("script", "then"), [(HIDDEN, VISITS), (PATCHED, "git am --skip")])
def test_nothing_hides_from_what_disarms(trapped, layer, script, then):
    place = trapped(layer)
    lay(place, REPOSITORY + script)
    assert person(place, then) == []


@every_layer
def test_what_its_owner_may_not_list_or_read_hides_nothing(trapped, layer):
    place = trapped(layer, USERS[-1])
    lay(place, REPOSITORY + CLOSED)
    assert person(place, CLOSED_VISITS) == []


@every_layer
def test_what_git_takes_for_its_own_folders_is_not_elsewhere(trapped, layer):
    """It writes there, and removes what it finds."""
    place = trapped(layer)
    git(place.workspace, "worktree", "add", "-q", "../mine")
    for name in FOLDERS:
        (place.outside / name).mkdir()
        (place.outside / name / "index").write_text("precious\n")
    lay(place, REPOSITORY + LINKED)
    person(place, UPKEEP)
    there = {name: [p.name for p in (place.outside / name).iterdir()] for name in FOLDERS}
    assert there == {key: ["index"] for key in FOLDERS}
    assert git(place.base / "mine", "status", "--short") == ""


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
    run = place.does([bash("sh attack.sh")])
    assert run.exit_code == 0, run.stderr
    assert tree(place.outside) == before
    assert "the ssh key" not in run.told[0]
    if layer == "bubblewrap" and link.strip() in ("hooks", "config"):
        assert where.is_symlink(), "it could be replaced by hooks of the attacker"
