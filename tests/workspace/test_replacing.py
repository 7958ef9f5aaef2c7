from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agentcli.errors import ToolError
from agentcli.workspace.replacing import replace_file

ACCESS_LIST = "system.posix_acl_access"
# Version 2; the user, user 1234, the group, the mask and others may read and write.
ENTRIES = [(1, 6, -1), (2, 6, 1234), (4, 6, -1), (16, 6, -1), (32, 6, -1)]
LIST = (2).to_bytes(4, "little") + b"".join(
    tag.to_bytes(2, "little")
    + rights.to_bytes(2, "little")
    + who.to_bytes(4, "little", signed=True)
    for tag, rights, who in ENTRIES
)


def anywhere(path: Path) -> None:
    pass


def test_all_names_of_a_file_change_if_all_may_be_written(tmp_path):
    (tmp_path / "in").mkdir()
    first, second = tmp_path / "a", tmp_path / "in" / "b"
    first.write_text("old and long")
    second.hardlink_to(first)
    told = replace_file(first, b"new", "a", anywhere, [tmp_path])
    assert (first.read_text(), second.read_text()) == ("new", "new")
    assert first.stat().st_nlink == 2
    assert "b: hard link" in told
    assert {path.name for path in tmp_path.iterdir()} == {"a", "in"}


def test_a_name_that_may_not_be_written_keeps_the_old_text_and_that_is_told(tmp_path):
    def inside(path: Path) -> None:
        if "in" not in path.parts:
            raise ToolError("outside")

    (tmp_path / "in").mkdir()
    first, second = tmp_path / "in" / "a", tmp_path / "b"
    for roots in ([tmp_path / "in"], [tmp_path]):
        first.unlink(missing_ok=True)
        second.write_text("old")
        first.hardlink_to(second)
        assert "keeps the old text" in replace_file(first, b"new", "a", inside, roots)
        assert (first.read_text(), second.read_text()) == ("new", "old")


def test_a_longer_text_in_place_is_whole(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_bytes(b"x")
    second.hardlink_to(first)
    replace_file(first, b"y" * 100_000, "a", anywhere, [tmp_path])
    assert second.read_bytes() == b"y" * 100_000


@pytest.mark.parametrize(("name", "value"), [("user.note", b"x"), (ACCESS_LIST, LIST)])
def test_attributes_and_access_lists_stay(tmp_path, name, value):
    path = tmp_path / "a"
    path.write_text("old")
    try:
        os.setxattr(path, name, value)
    except OSError:
        pytest.skip("this file system has no such attributes")
    assert replace_file(path, b"new", "a", anywhere, [tmp_path]) == ""
    assert path.read_text() == "new"
    assert os.getxattr(path, name) == value


def as_nobody(work: Callable[[], object]) -> int:
    """Does this in a process of another user; returns 0 if it went well."""
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(Exception):
            os.setgroups([])
            os.setuid(65534)
            work()
            code = 0
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of somebody else")
@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o755])
def test_a_file_of_somebody_else_keeps_its_owner(mode):
    """In a folder that is open to all, sticky, or closed."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        folder = Path(name) / "shared"
        folder.mkdir()
        path = folder / "a"
        path.write_text("old text")
        path.chmod(0o666)
        folder.chmod(mode)
        assert as_nobody(lambda: replace_file(path, b"new", "a", anywhere)) == 0
        assert (path.read_text(), path.stat().st_uid) == ("new", 0)
        assert [each.name for each in folder.iterdir()] == ["a"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of somebody else")
def test_a_closed_folder_lets_no_name_outside_change():
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        path, other = Path(name) / "a", Path(name) / "b"
        path.write_text("old")
        path.chmod(0o666)
        other.hardlink_to(path)
        assert as_nobody(lambda: replace_file(path, b"new", "a", anywhere)) == 1
        assert other.read_text() == "old"
