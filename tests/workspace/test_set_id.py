"""Finding and clearing set-user-ID and set-group-ID bits."""

from __future__ import annotations

import os
from pathlib import Path

from agentcli.workspace.opening import clear_set_id
from agentcli.workspace.replacing import replace_file

NAME, DEPTH = "d" * 200, 25
"""A path of more than 4,096 bytes, which no system call takes."""


def made(path: Path, mode: int) -> Path:
    path.write_text("x")
    path.chmod(mode)
    return path


def test_what_changed_since_is_cleared_at_any_depth_and_nothing_else(tmp_path):
    top, outside = tmp_path / "top", made(tmp_path / "outside", 0o4755)
    top.mkdir()
    old = made(top / "old", 0o4755)
    since_ns = old.stat().st_ctime_ns + 1
    while made(top / "plain", 0o755).stat().st_ctime_ns < since_ns:
        pass
    both, group = made(top / "both", 0o6711), made(top / "group", 0o2755)
    (top / "link").symlink_to(outside)
    folder = top / "folder"
    folder.mkdir()
    folder.chmod(0o2755)
    handle = os.open(folder, os.O_RDONLY)
    for _ in range(DEPTH):
        os.mkdir(NAME, dir_fd=handle)
        below = os.open(NAME, os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = below
    deep = os.open("deep", os.O_CREAT | os.O_WRONLY, 0o755, dir_fd=handle)
    os.fchmod(deep, 0o4755)
    found = list(clear_set_id(top, since_ns))
    assert sorted(path.name for path in found) == ["both", "deep", "group"]
    assert [path.stat().st_mode & 0o7777 for path in (both, group)] == [0o711, 0o755]
    assert os.fstat(deep).st_mode & 0o7777 == 0o755
    assert old.stat().st_mode & outside.stat().st_mode & 0o4000
    assert folder.stat().st_mode & 0o2000, "folders merely hand down their group"
    os.close(deep)
    os.close(handle)


def test_an_edited_program_loses_the_bits_as_if_it_was_written_to(tmp_path):
    tool = made(tmp_path / "tool", 0o6751)
    replace_file(tool, b"another", "tool", lambda path: None)
    assert tool.stat().st_mode & 0o7777 == 0o751
