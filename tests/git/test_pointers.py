"""Files that say where git keeps its data are read exactly as git reads them: a place that looks
harmless to us and isn't to git would let commands run a program as the person."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from agentcli.git.baseline import Baseline
from agentcli.git.disarm import Disarmer
from agentcli.git.git_config_risks import changes_since_start, snapshot_repository_config
from agentcli.git.quarantine import Quarantine, Removals
from agentcli.git.repositories import controls, find_repository, nested_repositories
from agentcli.git.watch_record import Inventory
from tests.conftest import git

ENDS = [" ", "\t", " \n", "\0x", "\x0b"]


def evil(common: Path, ran: Path) -> None:
    """A git folder whose settings run a program, but which doesn't look like one by itself."""
    for name in ("objects", "refs"):
        (common / name).mkdir(parents=True)
    (common / "config").write_text(
        f'[core]\n\trepositoryformatversion = 0\n\tfsmonitor = "touch {ran}; false"\n'
    )


def private(folder: Path, common: str) -> None:
    folder.mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "commondir").write_text(common)


def status(folder: Path) -> None:
    subprocess.run(["git", "status"], cwd=folder, capture_output=True)


def disarmed(root: Path) -> list[str]:
    removals = Removals(Quarantine(root.with_name("kept")))
    since_ns = time.time_ns() - 60_000_000_000
    Disarmer([root], since_ns, [], Inventory(), {}, removals).run()
    return [str(finding.path.relative_to(root)) for finding in removals.findings]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "work"
    root.mkdir()
    return root


@pytest.mark.parametrize("end", ENDS)
def test_a_pointer_to_a_place_with_a_similar_name_runs_nothing(root, tmp_path, end):
    git(root, "init", "-q", "decoy")
    (root / "decoy/.git").rename(root / "sub")
    ran = tmp_path / "ran"
    evil(root / "common", ran)
    meant = end.rstrip("\n").partition("\0")[0]
    if meant:
        private(root / f"sub{meant}", "../common\n")
    else:
        git(root / "sub", "config", "core.fsmonitor", f"touch {ran}; false")
    (root / "nested").mkdir()
    (root / "nested/.git").write_text(f"gitdir: ../sub{end}")
    status(root / "nested")
    assert ran.exists(), "the trap is real"
    ran.unlink()
    assert disarmed(root)
    status(root / "nested")
    assert not ran.exists()


@pytest.mark.parametrize(
    "end", [*(f"../..{end}" for end in (" ", "\t")), "\n", "evil" + "\n" * 300_000]
)
def test_a_worktree_belongs_to_no_other_repository(root, end):
    git(root, "init", "-q")
    folder = root / ".git/worktrees/side"
    private(folder, "../..\n")
    baseline = Baseline(folder)
    baseline.take()
    (folder / "commondir").write_text(end)
    [finding] = baseline.check(Quarantine(root.with_name("kept")))
    assert finding.path == folder / "commondir"
    assert (folder / "commondir").read_text() == "../..\n"


@pytest.mark.parametrize("end", [end for end in ENDS if "\0" not in end])
def test_a_pointer_to_a_place_with_a_similar_name_is_news(root, tmp_path, end):
    (root / ".git").write_text("gitdir: sub\n")
    snapshot_repository_config(root, tmp_path / "store")
    (root / ".git").write_text(f"gitdir: sub{end}")
    assert changes_since_start(root, tmp_path / "store")


def test_a_folder_that_is_a_repository_only_with_another_one_runs_nothing(root, tmp_path):
    git(root, "init", "-q")
    ran = tmp_path / "ran"
    evil(root / "common", ran)
    with (root / "common/config").open("a") as file:
        file.write(f'[alias]\n\tst = "!touch {ran}"\n')
    private(root / "sub", "../common\n")
    subprocess.run(["git", "st"], cwd=root / "sub", capture_output=True)
    assert ran.exists(), "the trap is real"
    ran.unlink()
    assert disarmed(root) == ["sub/commondir"]
    subprocess.run(["git", "st"], cwd=root / "sub", capture_output=True)
    assert not ran.exists()


def test_places_that_lead_nowhere_stop_nothing(root):
    (root / "loop").symlink_to("loop")
    for name, pointer in {"a": "x\0y", "b": "../loop", "c": "x" * 5_000}.items():
        (root / name).mkdir()
        (root / name / ".git").write_text(f"gitdir: {pointer}\n")
    for name, common in {"d": "x\0y", "e": "../../loop", "f": "x" * 5_000}.items():
        git(root, "init", "-q", name)
        (root / name / ".git/commondir").write_text(common)
    git(root, "init", "-q", "g")
    git(root / "g", "config", "core.worktree", "../../loop")
    for name in "abcdefg":
        find_repository(root / name)
    assert nested_repositories(root)
    assert {"a/.git", "b/.git", "d/.git/commondir", "e/.git/commondir"} <= set(disarmed(root))


def test_a_repository_listed_as_a_loop_stops_nothing(root):
    git(root, "init", "-q")
    git(root, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},loop")
    (root / "loop").symlink_to("loop")
    assert nested_repositories(root) == []
    assert disarmed(root) == []


@pytest.mark.parametrize("stray", ["HEAD", "config"])
def test_a_stray_file_hides_no_submodule(tmp_path, stray):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    modules = tmp_path / ".git/modules"
    subprocess.run(["git", "init", "-q", "--bare", modules / "group/sub"], check=True)
    (modules / "group" / stray).write_text("ref: refs/heads/main\n")
    repository = find_repository(tmp_path)
    assert repository is not None
    assert modules / "group/sub/config" in repository.protected()


@pytest.mark.parametrize(
    ("config", "is_read"),
    [
        ("[extensions]\nworktreeConfig = true\n", True),
        ("[extensions]\nworktreeConfig\n", True),
        ("[extensions]\nworktreeConfig = off\n", False),
        ("# worktreeConfig\n", False),
        ("", False),
    ],
)
def test_the_settings_of_a_worktree_are_guarded_where_git_reads_them(tmp_path, config, is_read):
    (tmp_path / "config").write_text(config)
    always = ["hooks", "config", "commondir", "info/attributes"]
    guarded = [str(p.relative_to(tmp_path)) for p in controls(tmp_path, all_of_them=False)]
    assert guarded == always + ["config.worktree"] * is_read
