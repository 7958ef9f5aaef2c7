"""Forged data in git folders: git believes its own index, and what it wrote down of a merge. Each
is forged by a real run, then the person goes on by hand; what runs or is written leaves its mark
beside the workspace."""

from __future__ import annotations

import shlex
from pathlib import Path

from tests.attacks.raids import LAYERS_ALONE, bash, in_turn
from tests.attacks.test_git_traps import again_and_done, every_layer, lay, person, trapped
from tests.sandbox.sandboxes import git

__all__ = ["trapped"]

FORGE = r"""
cat >forge.py <<'END'
import hashlib, sys
index, *names = sys.argv[1:]
data = open(index, 'rb').read()[:-20]
for old, new in zip(names[::2], names[1::2]):
    new = new.encode().decode('unicode_escape').encode('latin-1')
    assert data.count(old.encode()) == 1 and len(old) == len(new), (old, new)
    data = data.replace(old.encode(), new)
digest = hashlib.sha1(data).digest()
if 'sharedindex' in index:
    main = open('.git/index', 'rb').read()[:-20]
    main = main.replace(bytes.fromhex(index.rpartition('.')[2]), digest)
    index = f'.git/sharedindex.{digest.hex()}'
    open('.git/index', 'wb').write(main + hashlib.sha1(main).digest())
open(index, 'wb').write(data + digest)
END
set -e
add() {  # NAME: an entry whose file would leave a mark
  git update-index --add --cacheinfo "100755,$(git hash-object -w payload),$1"; }
repository() {  # DIR: one that runs the payload
  git init -q "$1" && git -C "$1" config core.fsmonitor "$PWD/payload"; }
split() { git update-index --split-index; }
shared() { ls -t .git/sharedindex.* | head -1; }
tmp=$(awk '$5 == "/tmp" { print $4 }' /proc/self/mountinfo | grep . || echo "$TMPDIR")
"""
PATHS = (
    *("../outside/ran-up", ".git/hooks/post-checkout", ".GIT/hooks/post-commit", "/proc/ran-there"),
    *("git~1/hooks/x", ".git. /hooks/x", r".g\xe2\x80\x8cit/hooks/x", "nothing//x", "dots/./x"),
)


def stand_in(number: int, path: str) -> str:
    """A name as long as the path."""
    return chr(ord("A") + number) + "q" * (len(path.encode().decode("unicode_escape")) - 1)


def forged(index: str = ".git/index", before: str = "") -> str:
    """Commands that forge all of `PATHS`; `before` that, something is done to the index."""
    pairs = [(stand_in(number, path), path) for number, path in enumerate(PATHS)]
    added = "\n".join(f"add {name}" for name, _ in pairs)
    names = shlex.join([name for pair in pairs for name in pair])
    return f"echo new >new; git add new\n{added}\n{before}\npython3 forge.py {index} {names}\n"


INDEXES = {
    "plain": forged(),
    "compressed": forged(before="git update-index --index-version 4"),
    "extended": forged(before="echo x >intended; git add -N intended"),
    "split": forged("$(shared)", "split"),
}
THROW_AWAY = """
git ls-files >../outside/listed; git restore .; git checkout -q .; git checkout -q -b other
git commit -q --allow-empty -m x; git status
"""


@in_turn("how", INDEXES, LAYERS_ALONE)
def test_what_is_forged_in_an_index_is_taken_out(trapped, layer, how):
    place = trapped(layer)
    honest = {*git(place.workspace, "ls-files").splitlines(), "new"}
    run = lay(place, FORGE + INDEXES[how] + "echo laid")
    assert person(place, THROW_AWAY) == []
    listed = (place.outside / "listed").read_text().splitlines()
    assert set(listed) - {"intended"} == honest
    assert "took out" in run.stderr


# --- repositories that only an index knows ------------------------------------------------------

LINK = 'git update-index --add --cacheinfo "160000,$(git rev-parse HEAD),'
NESTED = {
    "in_a_folder_of_git": (
        f'repository .git/objects/x; {LINK}Zqqqqqqqqqqqqq"; split\n'
        "python3 forge.py $(shared) Zqqqqqqqqqqqqq .git/objects/x"
    ),
    # So many files that a search for repositories does not get to its end.
    "beside_many_in_a_split_index": (
        "mkdir many; repository many/zz; (cd many; seq 60001 | xargs touch\n"
        "for n in $(seq 20); do cp -r zz zz$n; done)\n"
        f'for n in $(seq 10); do {LINK}many/zz$n"; done\n'
        "for n in $(seq 11 20); do add many/zz$n; done; split\n"
        "git config splitIndex.maxPercentChange 100 || export GIT_CONFIG_COUNT=1 \\\n"
        "  GIT_CONFIG_KEY_0=splitIndex.maxPercentChange GIT_CONFIG_VALUE_0=100\n"
        'for n in $(seq 11 20); do printf "160000 $(git rev-parse HEAD) 0\\tmany/zz$n\n"; done |\n'
        "git update-index --index-info"
    ),
}


@in_turn("how", NESTED, LAYERS_ALONE)
def test_a_repository_that_an_index_names_runs_nothing(trapped, layer, how):
    place = trapped(layer)
    lay(place, FORGE + NESTED[how] + "\necho laid")
    assert person(place, "git status") == []


@every_layer
def test_repositories_in_its_own_tmp_run_nothing(trapped, layer):
    """Neither when the person goes there, nor by an index that leads there."""
    place = trapped(layer)
    script = (
        'repository "$TMPDIR/x"; path=$(realpath -m --relative-to=. "$tmp/x")\n'
        "name=Z$(printf %s \"${path#?}\" | tr -c '' q); " + LINK + '$name"\n'
        'python3 forge.py .git/index "$name" "$path"\n'
        'cp payload "$TMPDIR/x/.git/hooks/post-checkout"; echo laid'
    )
    lay(place, FORGE + script)
    assert person(place, "git status; cd ../home/state/sessions/*/tmp/x && git checkout -b x") == []
    assert len(list(place.home.glob("state/sessions/*/tmp/x/.git"))) == 1


@every_layer
def test_what_a_killed_session_forged_is_taken_out_by_the_next(trapped, layer):
    place = trapped(layer)
    script = f'{FORGE}{forged()}repository "$TMPDIR/x"'
    (place.workspace / "lay.sh").write_text(script)
    place.killed_after(bash("bash lay.sh"))
    said = again_and_done(place, place.workspace / "none", "run", "go on")
    assert "took out" in said
    assert person(place, f"{THROW_AWAY}; git -C ../home/state/sessions/*/tmp/x status") == []


# --- what git wrote down of a merge or a rebase -------------------------------------------------

MERGES = r"""
git switch -qc x; for n in 1 2 3; do echo $n >f; git add f; git commit -qm "$n \$(id)"; done
GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -qi HEAD~2
rm -f .git/rebase-merge/done; ln -s $OUTSIDE/done .git/rebase-merge/done
ln -s ../home/.ssh/id_ed25519 key
for n in 1 2; do
  id=$n$(git rev-parse HEAD | cut -c 2-); mkdir -p .git/rr-cache/$id
  echo x >.git/rr-cache/$id/preimage
  test $n = 1 && path=../home/.aws/credentials || path=key
  printf '%s\t%s\0' $id $path >>.git/MERGE_RR
done
ln -s $OUTSIDE/graph .git/objects/info/commit-graph
echo laid
"""


@every_layer
def test_the_state_of_merges_leads_nowhere(trapped, layer):
    """git writes to what is linked there, and copies what it says was in conflict."""
    place = trapped(layer)
    for name in ("done", "graph"):
        (place.outside / name).write_text("mine\n")
    lay(place, "set -e" + MERGES.replace("$OUTSIDE", str(place.outside)))
    person(place, "git commit -q --allow-empty -m x; git rebase --continue; git gc")
    written = [name for name in ("done", "graph") if _was_written(place.outside / name)]
    copied = [path.read_text() for path in (place.workspace / ".git/rr-cache").glob("*/post*")]
    assert (written, copied) == ([], [])


def _was_written(path: Path) -> bool:
    return path.read_bytes() != b"mine\n"


# --- commits ------------------------------------------------------------------------------------

TREES = r"""
import subprocess

def git(*arguments, data=b""):
    return subprocess.check_output(["git", *arguments], input=data).decode().strip()

def tree(*entries):
    data = b"".join(b"%b %b\0%b" % (m, n, bytes.fromhex(o)) for m, n, o in entries)
    return git("hash-object", "-w", "-t", "tree", "--literally", "--stdin", data=data)

script = git("hash-object", "-w", "payload")
link = git("hash-object", "-w", "--stdin", data=b".git/hooks")
hooks = tree((b"100755", b"post-checkout", script))
trees = [
    tree((b"100755", b"../outside/ran-x", script)),
    tree((b"40000", b"..", tree((b"40000", b"outside", tree((b"100755", b"ran-x", script)))))),
    *(tree((b"40000", name, tree((b"40000", b"hooks", hooks)))) for name in (b".git", b".GIT")),
    tree((b"100755", b".git/hooks/post-checkout", script)),
    tree((b"120000", b"a", link), (b"40000", b"a", hooks)),
    tree((b"40000", b"a", hooks), (b"120000", b"a", link)),
]
head = git("rev-parse", "HEAD")
for number, made in enumerate(trees):
    commit = git("commit-tree", made, "-p", head, "-m", "x")
    git("update-ref", f"refs/heads/b{number}", commit)
    stash = git("commit-tree", made, "-p", head, "-p", git("commit-tree", f"{head}^{{tree}}",
        "-p", head, "-m", "index"), "-m", "wip")
    git("update-ref", "-m", "wip", "refs/stash", stash)
print("laid")
"""
WAYS = """
for n in 0 1 2 3 4 5 6; do git checkout b$n; git reset --hard b$n; git reset --hard main
git merge -q --allow-unrelated-histories b$n; git merge --abort; git cherry-pick b$n
git cherry-pick --abort; git restore -s b$n .; git read-tree -u -m b$n; git reset --hard main
git worktree add ../outside/w$n b$n; git stash apply stash@{$n}
git reset b$n; git checkout .; git reset --hard main; git checkout main; git checkout -b c$n
git checkout main; done; git stash pop; git checkout -b last
"""


@every_layer
def test_git_itself_writes_no_forged_tree(trapped, layer):
    """Unlike what is in an index, it checks what it takes into one."""
    place = trapped(layer)
    git(place.workspace, "branch", "-M", "main")
    (place.workspace / "trees.py").write_text(TREES)
    assert "laid" in lay(place, "python3 trees.py").told[0]
    hooks = place.workspace / ".git/hooks"
    before = sorted(hooks.iterdir())
    assert person(place, WAYS) == []
    assert sorted(hooks.iterdir()) == before
