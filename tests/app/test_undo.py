"""Whatever steps do to files and to git, going back brings it back."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agentcli.app.fork import fork
from agentcli.errors import UsageError
from agentcli.events.observations import CheckpointObservation
from tests.app.undoing import Looks, Walk, looks, sh

FILE_COMMANDS = (
    "echo $RANDOM > a",
    "echo more >> dir/b",
    "rm -f a",
    "rm -rf dir",
    "mkdir -p empty/er new; touch new/f; chmod 600 new/f",
    "ln -sf dir/b link; mv a c 2>/dev/null",
    "rm dir/b; mkdir -p dir/b/deep; echo x > dir/b/deep/x",
    "chmod 755 a; chmod 700 dir",
    "echo x > ignored.log",
)
GIT_COMMANDS = (
    "git add -A",
    "git add -N a",
    "git commit -qm one -a --allow-empty",
    "git commit -q --amend -m other --allow-empty",
    "git rm -q --cached a",
    "git rm -qrf dir",
    "git checkout -q -- .",
    "git checkout -q -b topic",
    "git checkout -q main",
    "git checkout -q --detach",
    "git switch -q -c deep/er/topic",
    "git branch try; git branch -D topic",
    "git branch -m main trunk",
    "git branch -D try deep/er/topic; git branch deep",
    "git tag -a v1 -m v1; git tag light",
    "git tag -d v1",
    "git stash -q -u",
    "git stash -q; git stash drop -q",
    "git stash pop -q",
    "git stash clear",
    "git reset -q --hard HEAD~1",
    "git reset -q --soft HEAD~1",
    "git reset -q",
    "git clean -qfdx",
    "git merge -q topic --no-edit",
    "git rebase -q topic",
    "echo conflict > a; git commit -qam conflict; git merge -q topic",
    "git cherry-pick topic",
    "git merge --abort",
    "git pack-refs --all",
    "git gc -q",
    "git reflog expire --expire=now --all; git gc -q --prune=now",
    "git repack -adq; git prune --expire=now",
    "git update-index --assume-unchanged a",
    "git update-index --skip-worktree dir/b",
    "git update-index --index-version 4",
    "git update-ref refs/custom/x HEAD",
    "git symbolic-ref HEAD refs/heads/unborn",
    "git config core.editor vi",
    "git status",
    "git worktree add -q side",
    "git worktree remove --force side",
    "git init -q; git add -A; git commit -qm 'begun here'",
)
DESTROYERS = (
    "find . -mindepth 1 -delete",
    "find . -type f -delete",
    # What a mount keeps of it: two names in the git folder that can't be removed.
    "find . -mindepth 1 -not -path './.git' -not -path './.git/config' -not -path './.git/hooks*' "
    "-delete",
    "find . -type f -not -path './.git/config' -not -path './.git/hooks/*' -delete",
    "rm -rf .git",
    "rm -rf .git/objects",
    "rm -rf .git/refs .git/packed-refs",
    "rm -f .git/index",
    "rm -f .git/HEAD",
    "rm -rf .git/logs",
    "rm -f .git/objects/??/*",
    "find .git/objects -type f -exec chmod u+w {} + ; find .git/objects -type f | "
    'while read f; do : > "$f"; done',
    "find .git/objects -type f -exec chmod u+w {} + ; find .git/objects -type f | "
    'while read f; do printf garbage | dd of="$f" conv=notrunc bs=1 seek=3 status=none; done',
    "for f in $(find .git/refs -type f); do echo garbage > $f; done",
    "echo garbage > .git/packed-refs",
    "rm -f .git/HEAD .git/index; echo garbage > .git/HEAD; echo garbage > .git/index",
    "rm -f .git/HEAD; mkdir .git/HEAD; touch .git/HEAD/x",
    "rm -rf .git/refs; ln -s /etc .git/refs",
    "rm -rf .git/objects; mkfifo .git/objects; rm -f .git/index; mkfifo .git/index",
    "touch .git/index.lock .git/HEAD.lock .git/refs/heads/main.lock",
    "python3 -c \"import shutil; shutil.rmtree('.', ignore_errors=True)\"",
    "mv .git elsewhere",
)


@contextmanager
def walk(*, in_git: bool):
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch) / "work"
        work.mkdir()
        sh(work, "echo a > a; mkdir dir; echo b > dir/b; echo '*.log' > .gitignore")
        if in_git:
            sh(
                work,
                "git init -q; git add -A; git commit -qm first; echo 2 > a; git commit -qam second;"
                "git checkout -q -b topic HEAD~1; echo 3 > dir/b; git commit -qam third;"
                "git checkout -q main; echo stashed > a; git stash -q; echo staged > dir/b;"
                "git add dir/b; echo changed > dir/b; echo untracked > u",
            )
        with Walk(Path(scratch) / "home", work) as walked:
            yield walked


def turns(commands):
    return st.lists(st.lists(st.sampled_from(commands), min_size=1, max_size=4), max_size=2)


def without_locks(seen: Looks) -> Looks:
    """A lock that somebody left says that git is at work, which is not so any more."""
    kept = {path: entry for path, entry in seen.state.items() if not path.endswith(b".lock")}
    return replace(seen, state=kept)


def go_back_everywhere(walked: Walk, plan: list[list[str]], undone: int) -> None:
    """Undo some steps, redo that, undo all, and compare each time."""
    for commands in plan:
        walked.steps(commands)
    at_end = looks(walked.workspace)
    begun = walked.states[0] if walked.states else at_end
    made = undo_at_most(walked, undone)
    if made is None:
        assert at_end == begun
        return
    assert looks(walked.workspace).files in [state.files for state in walked.states]
    walked.rewind(made.kept_at)
    assert looks(walked.workspace).files == at_end.files
    if at_end.git and at_end.git[-1][0] == 0:
        assert without_locks(looks(walked.workspace)) == without_locks(at_end)
    undo_all(walked)
    assert looks(walked.workspace) == begun


def undo_at_most(walked: Walk, count: int):
    for number in range(count, 0, -1):
        try:
            return walked.undo(number)
        except UsageError:
            continue
    return None


def undo_all(walked: Walk) -> None:
    while undo_at_most(walked, 1) is not None:
        pass


slow = settings(
    max_examples=8,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.campaign
@slow
@given(plan=turns(FILE_COMMANDS + GIT_COMMANDS), undone=st.integers(1, 4))
def test_any_steps_in_a_repository_are_undone(plan, undone):
    with walk(in_git=True) as walked:
        go_back_everywhere(walked, plan, undone)


@slow
@given(plan=turns(FILE_COMMANDS + GIT_COMMANDS), undone=st.integers(1, 4))
@example(
    # The object that the last step adds goes with the repository that the first one made.
    plan=[
        ["git init -q; git add -A; git commit -qm 'begun here'"],
        ["echo $RANDOM > a", "git add -A"],
    ],
    undone=1,
)
@example(
    # Deleting a branch leaves a file for packed references behind that has none.
    plan=[["git init -q; git add -A; git commit -qm 'begun here'", "git branch -D topic"]],
    undone=1,
)
@example(
    # That file may come with the repository, before there is any reference.
    plan=[["git init -q; git pack-refs --all"]],
    undone=1,
)
def test_any_steps_elsewhere_are_undone(plan, undone):
    with walk(in_git=False) as walked:
        go_back_everywhere(walked, plan, undone)


@pytest.mark.campaign
@slow
@given(
    before=st.lists(st.sampled_from(FILE_COMMANDS + GIT_COMMANDS), max_size=2),
    destroyer=st.sampled_from(DESTROYERS),
    after=st.lists(st.sampled_from(FILE_COMMANDS + GIT_COMMANDS + DESTROYERS), max_size=2),
    undone=st.integers(1, 4),
)
def test_destroyed_repositories_come_back(before, destroyer, after, undone):
    with walk(in_git=True) as walked:
        go_back_everywhere(walked, [[*before, destroyer, *after]], undone)


@pytest.mark.cases(12)
@pytest.mark.parametrize("destroyer", DESTROYERS)
@pytest.mark.parametrize("packed", [False, True], ids=["loose", "packed"])
@pytest.mark.campaign
def test_each_destroyer_is_undone(destroyer, packed):
    with walk(in_git=True) as walked:
        if packed:
            sh(walked.workspace, "git gc -q")
        before = looks(walked.workspace)
        assert before.git[-1][0] == 0
        walked.steps([destroyer])
        if looks(walked.workspace) != before:
            walked.undo()
        assert looks(walked.workspace) == before


COPIED_COMMANDS = [c for c in FILE_COMMANDS + GIT_COMMANDS if "worktree" not in c]
"""Worktrees are the original's: a copy has no part in them."""


@pytest.mark.campaign
@slow
@given(plan=st.lists(st.sampled_from(COPIED_COMMANDS), min_size=1, max_size=4))
def test_a_fork_is_as_the_workspace_was(plan):
    with walk(in_git=True) as walked:
        walked.steps(plan)
        kept = [e.id for e in walked.session.events if isinstance(e, CheckpointObservation)]
        for number, (event_id, before) in enumerate(zip(kept, walked.states, strict=False)):
            target = walked.workspace.with_name(f"copy{number}")
            fork(walked.home, walked.session.folder, event_id, target)
            assert looks(target) == before
            shutil.rmtree(target)
