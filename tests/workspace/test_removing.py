"""Trees that commands made are walked and removed, however deep and wherever they forbid it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentcli.workspace.folders import walk
from agentcli.workspace.private import remove_tree

_NEST = """
import os, sys
name = sys.argv[2]
os.chdir(sys.argv[1])
for _ in range(int(sys.argv[3])):
    os.mkdir(name)
    os.chdir(name)
"""


def nest(top: Path, name: str, levels: int) -> None:
    """Make folders in each other, from a process of its own, as each works in the innermost."""
    subprocess.run([sys.executable, "-c", _NEST, str(top), name, str(levels)], check=True)


def test_a_deep_tree_is_walked_and_removed(tmp_path):
    top = tmp_path / "top"
    top.mkdir()
    (top / "file").touch()
    nest(top, "d", 1_200)
    nest(top, "n" * 255, 30)
    seen = list(walk(top))
    assert sorted(seen[0][1]) == ["d", "n" * 255]
    assert len(seen) > 1_000
    remove_tree(top)
    assert not top.exists()


def test_what_forbids_its_removal_is_removed_and_nothing_that_links_lead_to(tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir(mode=0o755)
    (kept / "file").write_text("kept")
    top = tmp_path / "top"
    for number, mode in enumerate((0o000, 0o100, 0o400, 0o500)):
        inner = top / str(number) / "inner"
        inner.mkdir(parents=True)
        (inner / "file").touch()
        (inner / "out").symlink_to(kept)
        inner.chmod(mode)
        inner.parent.chmod(mode)
    top.chmod(0o500)
    remove_tree(top)
    assert not top.exists()
    assert (kept / "file").read_text() == "kept"
    assert kept.stat().st_mode & 0o777 == 0o755
    assert list(walk(kept)) == [(kept, [], ["file"])]


def test_a_walk_follows_no_link_and_leaves_out_what_the_caller_says(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "c" / "d").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "c")
    seen = []
    for place, folders, _ in walk(tmp_path):
        seen.append(place.relative_to(tmp_path).as_posix())
        folders[:] = [name for name in folders if name != "d"]
    assert sorted(seen) == [".", "a", "a/b", "c"]
    missing: list[OSError] = []
    assert list(walk(tmp_path / "missing", missing.append)) == []
    assert len(missing) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a file immutable")
def test_what_can_t_be_removed_ends_the_removal(tmp_path):
    top = tmp_path / "top"
    (top / "a").mkdir(parents=True)
    (top / "a" / "fixed").touch()
    (top / "file").touch()
    if subprocess.run(["chattr", "+i", str(top / "a" / "fixed")], capture_output=True).returncode:
        pytest.skip("this file system has no immutable files")
    try:
        remove_tree(top)
        assert [path.name for path in top.iterdir()] == ["a"]
    finally:
        subprocess.run(["chattr", "-i", str(top / "a" / "fixed")], check=True)
