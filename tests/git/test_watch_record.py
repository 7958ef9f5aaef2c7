"""The file in which a watch records what it restores after a kill."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from agentcli.git.watch_record import RecordFile


def test_a_record_that_can_t_be_locked_is_closed_again(tmp_path, monkeypatch):
    def refused(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    record = tmp_path / "record"
    monkeypatch.setattr(fcntl, "flock", refused)
    with pytest.raises(OSError, match="locks"):
        RecordFile(record)
    held = [os.path.realpath(link) for link in Path("/proc/self/fd").glob("*")]
    assert str(record) not in held
