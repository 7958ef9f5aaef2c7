"""A folder keeps its baseline, also while somebody changes it as it is looked at."""

from __future__ import annotations

import errno
import fcntl
import os
from itertools import count
from pathlib import Path

import pytest

from agentcli.git import baseline as sealing
from agentcli.git.baseline import Baseline
from agentcli.git.quarantine import Quarantine, record_file
from agentcli.git.watch_record import RecordFile
from tests.conftest import git

EVIL = "[core]\n\tfsmonitor = evil\n"
HARMLESS = "[user]\n\tname = somebody\n"


@pytest.mark.parametrize("first", [EVIL, HARMLESS])
def test_what_is_swapped_while_it_is_judged_or_put_back_does_not_stay(tmp_path, monkeypatch, first):
    git(tmp_path, "init", "-q")
    config = tmp_path / ".git/config"
    text = config.read_text()
    baseline = Baseline(config.parent)
    baseline.take()
    readings = count(1)

    def read(folder: int, name: str, info):
        if name == "config" and next(readings) == 2:
            config.write_text(text + EVIL)
        return record_file(folder, name, info)

    monkeypatch.setattr(sealing, "record_file", read)
    quarantine = Quarantine(tmp_path / "kept")
    config.write_text(text + first)
    findings = baseline.check(quarantine)
    findings += baseline.check(quarantine)
    findings += baseline.check(quarantine)
    assert config.read_text() in (text, text + HARMLESS)
    assert {finding.path for finding in findings} == {config}


def test_a_pointer_that_git_writes_anew_is_not_taken_for_another(tmp_path, monkeypatch):
    pointer = tmp_path / ".git"
    pointer.write_text("gitdir: data\n")
    baseline = Baseline(tmp_path, names=frozenset([".git"]))
    baseline.take()
    pointer.write_text("")
    monkeypatch.setattr(sealing.time, "sleep", lambda _: pointer.write_text("gitdir: data\n"))
    assert baseline.check(Quarantine(tmp_path / "kept")) == []
    monkeypatch.undo()
    pointer.write_text("")
    [finding] = baseline.check(Quarantine(tmp_path / "kept"))
    assert finding.done == "put back as it was"
    assert pointer.read_text() == "gitdir: data\n"


def test_a_record_that_can_t_be_locked_is_closed_again(tmp_path, monkeypatch):
    def refused(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    record = tmp_path / "record"
    monkeypatch.setattr(fcntl, "flock", refused)
    with pytest.raises(OSError, match="locks"):
        RecordFile(record)
    held = [os.path.realpath(link) for link in Path("/proc/self/fd").glob("*")]
    assert str(record) not in held
