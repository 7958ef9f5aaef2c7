"""The list of what git's daily work changes in a git folder."""

from __future__ import annotations

import pytest

from agentcli.workspace.scope import is_control_file, is_routine_git_file

DAILY = """
    HEAD ORIG_HEAD FETCH_HEAD MERGE_HEAD MERGE_MSG MERGE_MODE MERGE_RR MERGE_AUTOSTASH SQUASH_MSG
    COMMIT_EDITMSG CHERRY_PICK_HEAD REVERT_HEAD REBASE_HEAD AUTO_MERGE BISECT_LOG BISECT_START
    index index.lock HEAD.lock config.lock packed-refs packed-refs.lock packed-refs.new shallow
    sharedindex.0123456789012345678901234567890123456789 next-index-12.lock gc.pid gc.log
    objects/ab/cdef objects/pack/pack-1.pack objects/info/alternates refs/heads/a/b refs/stash
    logs/HEAD logs/refs/stash rebase-merge/done rebase-apply/0001 sequencer/todo rr-cache/x/preimage
    info/refs info/sparse-checkout lfs/objects/ab/cd/x reftable/tables.list
    worktrees/a/HEAD worktrees/a/index worktrees/a/logs/HEAD worktrees/a/locked
    modules/a/HEAD modules/a/b/index modules/a/modules/b/objects/ab/cd modules/a/b/logs/HEAD
""".split()  # noqa: SIM905
OTHER = """
    commondir config config.worktree gitdir hooks hooks/pre-commit hooks/x/y description branches/x
    remotes/x info info/attributes info/exclude info/grafts objects refs index/x HEAD/x head Index
    worktrees worktrees/a worktrees/a/commondir worktrees/a/gitdir worktrees/a/config.worktree
    modules modules/a modules/a/config modules/a/commondir modules/a/b/hooks/x modules/a/b/config
    unheard-of svn/x HEAD2 x.locked
""".split()  # noqa: SIM905


@pytest.mark.parametrize("path", DAILY)
def test_daily_work_is_let_be(path):
    assert is_routine_git_file(path.split("/"))
    assert not is_control_file(("/", "w", ".git", *path.split("/")))


@pytest.mark.parametrize("path", OTHER)
def test_nothing_else_is(path):
    assert not is_routine_git_file(path.split("/"))
    for name in (".git", ".GIT"):
        assert is_control_file(("/", "w", name, *path.split("/")))


def test_what_is_in_no_git_folder_is_not_judged():
    assert not is_control_file(("/", "w", "config"))
    assert not is_control_file(("/", "w", ".github", "hooks"))
    assert is_control_file(("/", "w", ".git"))
