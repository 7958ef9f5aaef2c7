"""Which renames of commands somebody outside is asked about, and what becomes of them."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from types import SimpleNamespace

import pytest

from agentcli.sandbox.system_calls import Renames
from tests.sandbox.sandboxes import LAYERS, make_place

has_bubblewrap = pytest.mark.skipif("bubblewrap" not in LAYERS, reason="needs bubblewrap")
NOT_ASKED = "not asked"
MOVED, KEPT = "moved", "kept"
CASES = [
    ("mv", "d/config.lock", "d/config", 0, KEPT),
    ("mv", "link/config.lock", "link/config", 0, KEPT),
    ("mv", "{work}/d/config.lock", "{work}/d/config", 0, KEPT),
    ("mv", "d/config.lock", "d/config", errno.EPERM, "Operation not permitted"),
    ("mv", "d/config.lock", "d/config", None, MOVED),
    ("mv", "d/config.lock", "d/config", OSError("odd"), MOVED),
    ("mv", "d/config.lock", "d/config", ValueError("odd"), MOVED),
    ("mv", "d/other", "d/config", NOT_ASKED, MOVED),
    ("mv", "d/config.lock", "link/config", NOT_ASKED, MOVED),
    ("mv", "d/other.lock", "d/other", NOT_ASKED, MOVED),
    ("mv", "d/config", "d/config.lock", NOT_ASKED, MOVED),
    ("cp", "d/config.lock", "d/config", NOT_ASKED, KEPT),
]


@has_bubblewrap
def test_only_a_lock_file_that_replaces_its_own_file_is_asked_about(tmp_path):
    here = make_place(tmp_path, "bubblewrap")
    work = here.workspace
    (work / "d").mkdir()
    (work / "link").symlink_to("d")
    asked = []

    def judge(folder, name):
        assert name == "config"
        assert os.path.samestat(
            (work / "d").stat(), SimpleNamespace(st_dev=folder[0], st_ino=folder[1])
        )
        asked.append(answer)
        if isinstance(answer, Exception):
            raise answer
        return answer

    renames = Renames(here.scope.workspace, ["config"], judge)
    here.shell.sandbox = replace(here.sandbox, renames=renames)
    for how, old, new, answer, expected in CASES:
        old, new = (name.format(work=work) for name in (old, new))
        said = here.said(f"touch {old} {new}; {how} -f {old} {new} && test -e {old} && echo {KEPT}")
        assert expected in (said or MOVED), (old, new, said)
        assert asked == ([] if answer == NOT_ASKED else [answer])
        asked.clear()
    # Nobody is there any more.
    renames.stop()
    assert "not implemented" in here.said("touch x; mv x y")
    here.shell.close()
    # An interrupt may have it end twice, and a shell start meanwhile.
    renames.stop()
    renames.installer()()


@pytest.mark.parametrize("release", ["5.4.0-150-generic", "4.18.0", "odd"])
def test_a_kernel_that_can_not_be_left_to_answer_is_not_used(tmp_path, monkeypatch, release):
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(release=release, machine="x86_64"))
    with pytest.raises(OSError, match="not implemented"):
        Renames(tmp_path, ["config"], lambda folder, name: None)
